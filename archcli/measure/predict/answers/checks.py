"""Questions about time that have no answer, each with what would do."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.errors import ArchError, Problem
from archcli.measure.memory.settings import COMPUTED
from archcli.measure.predict.answers.question import DEFAULT_NEW, FP8, PredictQuestion, PredictSettings

DTYPES = (*COMPUTED, FP8)
OF_INFERENCE = {"engine": "--engine", "kv_read": "--kv-read"}
DEFAULTS = PredictSettings()


def check_prediction(question: PredictQuestion) -> None:
    """Raise ArchError with all that options of `predict` contradict."""
    problems = list(_problems(question))
    if problems:
        raise ArchError(problems)


def _problems(question: PredictQuestion) -> Iterator[Problem]:
    asked, phase = question.asked, question.phase
    if asked.dtype not in DTYPES:
        yield Problem(f"predict does not support dtype {asked.dtype}", f"one of {', '.join(DTYPES)}")
    if asked.compiled:
        yield from _of_compiled(question)
    if not question.caches:
        for name, option in OF_INFERENCE.items():
            if getattr(asked, name) != getattr(DEFAULTS, name):
                what = f"{option} applies to inference with a cache only, and the phase is {phase}"
                yield Problem(what, f"leave {option} out")
    if phase == "train":
        if asked.dtype == FP8:
            yield Problem("predict does not support training in fp8", "--dtype bf16")
    elif asked.tokens is not None:
        yield Problem(f"--tokens applies to training only, and the phase is {phase}", "ask for --phase train")
    if phase != "serve" and asked.new != DEFAULT_NEW:
        hint = "ask for --phase serve" if question.model.caches else "leave --new out"
        yield Problem(f"--new applies to serving only, and the phase is {phase}", hint)


def _of_compiled(question: PredictQuestion) -> Iterator[Problem]:
    """What is not predicted of a compiled pass: engines have kernels of their own, ranks wait between."""
    if question.is_served:
        yield Problem(
            "--compile is of the model itself, not of an engine", "--phase prefill or decode without --engine"
        )
    if question.plan.devices > 1:
        yield Problem("--compile is predicted for one device alone", "leave --compile out")
    if question.settings.recompute != "none":
        what = "--compile is predicted without --recompute"
        yield Problem(what, "leave --compile or --recompute out")
