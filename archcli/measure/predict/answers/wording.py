"""How a question about time is put into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.measure.memory.answers.wording import PHASES, bytes_in_words, device_in_words, plan_in_words
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.predict.answers.question import PredictQuestion, PredictSettings

DEFAULTS, ASKED = MemorySettings(), PredictSettings()


def title(question: PredictQuestion) -> str:
    """What is asked: `one decoded token each, 1 x 2,048 tokens in the cache, bf16, on h100-sxm`."""
    return ", ".join(_parts(question))


def _parts(question: PredictQuestion) -> Iterator[str]:
    settings, asked = question.settings, question.asked
    yield PHASES[question.phase]
    tokens = f"{settings.batch_size:,} x {settings.tokens(question.model):,} tokens"
    made = f" and {asked.new:,} more" if question.phase == "serve" else ""
    if settings.past:
        made = f" behind {settings.past:,}"
    yield tokens + (" in the cache" if question.phase == "decode" else made)
    yield asked.dtype
    for name in ("attention", "backend", "recompute", "grad_accum"):
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            yield f"{name.replace('_', ' ')} {value}"
    if asked.compiled:
        yield "compiled"
    if asked.engine != ASKED.engine:
        yield asked.engine
    if asked.kv_read != ASKED.kv_read:
        yield "cache read once per query head"
    if question.plan.devices > 1:
        yield plan_in_words(question.plan)
    yield f"on {_devices(question)}"


def _devices(question: PredictQuestion) -> str:
    """The devices that the plan uses: `8 x h100-sxm`."""
    return device_in_words(question.device.memory._replace(n_devices=question.plan.devices))


def misfit(question: PredictQuestion, totals: Mapping[str, Any]) -> Iterator[str]:
    """What stands before all times of a model that does not fit; nothing where it fits."""
    if not totals["fits"]:
        needed, there = (bytes_in_words(totals[name]) for name in ("needed_bytes", "memory_bytes"))
        of_each = "each needs" if question.plan.devices > 1 else "needs"
        yield (
            f"Does not fit into {_devices(question)} ({of_each} {needed}, has {there}); "
            "all times are as if it did."
        )


def misfit_hints(question: PredictQuestion, totals: Mapping[str, Any]) -> Iterator[str]:
    """The command that says how many devices would hold what does not fit."""
    if not totals["fits"]:
        options = f"--phase {question.phase} --device {question.device.name} --fit devices"
        yield f"It does not fit: `archcli memory MODEL {options}` says how many devices would do."


def sequences(question: PredictQuestion) -> str:
    """How many sequences are asked for: `1 sequence`; of a training step with those of all replicas."""
    number = int(question.settings.batch_size)
    if question.phase == "train":
        number *= question.plan.dp * question.plan.micro_batches * question.settings.grad_accum
    return f"{number:,} sequence{'' if number == 1 else 's'}"
