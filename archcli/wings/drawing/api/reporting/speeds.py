"""Whether a model fits each device of a report, and how fast it is, by `archcli fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError, UnknownFormError
from archcli.modules.spec.arguments import EngineName
from archcli.wings.serving.api.fitting.choice import Choice
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.wings.serving.memory.answers.changes import whole_bytes
from archcli.wings.serving.memory.answers.question import check_question

SINGLE = ("rtx-4090", "h100-sxm", "b200-sxm")
SERVERS = ("8xh100-sxm", "8xb200-sxm")
"""Default devices; the servers are added if no single device holds the model."""
ENGINES: tuple[EngineName, ...] = ("vllm", "sglang", "trtllm", "llamacpp")
FORMATS = ("bf16", "fp8", "q8_0", "q4_k_m", "awq-int4")
CONTEXTS = (8_192, 32_768, 131_072)
"""What a page answers for each device beside the usual: `fit --engine`, `--dtype` and `--context`."""
RATES = ("floor", "expected", "low", "high")
KEYS = ("fits", "verdict", "words", "format", "engine", "context", "memory", "weights", "speed_at", *RATES)
"""The figures of an answer, in the order of a page's data."""
Step = Callable[[str], None]


def speeds(
    subject: Subject, devices: Sequence[str], engine: EngineName | None, step: Step = lambda _: None
) -> list[dict[str, Any]]:
    """A record for each device: its answers by engine, format and context, `||` for the usual."""
    records = [_record(subject, device, engine, step) for device in devices or SINGLE]
    if not devices and not any(record["answers"]["||"][0] for record in records):
        records += [_record(subject, device, engine, step) for device in SERVERS]
    return records


def _record(subject: Subject, device: str, engine: EngineName | None, step: Step) -> dict[str, Any]:
    step(f"{subject.name} on {device}")
    answers = {}
    for name in ("", *(it for it in ENGINES if it != engine)):
        for key, answer in _answers(subject, device, name or engine):
            answers[f"{name}|{key}"] = [answer.get(figure) for figure in KEYS]
    return {"device": device, "answers": answers}


def _answers(subject: Subject, device: str, engine: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The answers of one engine by `format|context`."""
    longest = subject.model.max_seq_len or CONTEXTS[-1]
    contexts = (None, *(tokens for tokens in CONTEXTS if tokens <= longest))
    options = FitOptions(subject.model, device, engine=engine)
    options.device_memory()  # ArchError for a device that does not exist
    try:
        question = options.question(subject)
    except ArchError as error:
        yield "|", {"words": error.problems[0].what}
        return
    for dtype in (None, *FORMATS):
        for tokens in contexts:
            of_format = question if dtype is None else replace(question, dtype=dtype)
            yield f"{dtype or ''}|{tokens or ''}", _answer(replace(of_format, context=tokens))


def _answer(question: FitQuestion) -> dict[str, Any]:
    """The totals of `archcli fit`; `fits` is None where it has no answer, with the reason in `words`."""
    try:
        formats = Formats(question)
        check_question(formats.first.question)
        best = formats.best()
        if best is None:
            least = formats.least() if question.dtype is None else formats.first
            return {**_device(least), "fits": False, "verdict": "no", "words": "does not fit"}
        figures = {"format": best.format, "context": best.context, "weights": whole_bytes(best.question)}
        figures |= {"speed_at": best.speed_at, **best.tokens_per_s}
        return {**_device(best), "fits": True, "verdict": best.verdict, **figures}
    except UnknownFormError as error:
        return {"words": f"bytes of {error.form} are not known"}
    except ArchError as error:
        return {"words": error.problems[0].what}


def _device(choice: Choice) -> dict[str, Any]:
    """The engine that runs a choice, and the bytes that it takes of all devices."""
    return {"engine": choice.engine.title, "memory": choice.device.memory_bytes * choice.device.n_devices}
