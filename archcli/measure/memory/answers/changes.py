"""Changes that take less memory: one at a time, the cheapest first, and tables of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.training.optimizers import OPTIMIZERS
from archcli.measure.report import Column, Table

Record = dict[str, Any]


class Change(NamedTuple):
    """A change of one option: as it is typed, and the settings it makes."""

    option: str
    settings: dict[str, Any]


TRAINING = (
    Change("--attention flash", {"attention": "flash"}),
    Change("--loss fused", {"loss": "fused"}),
    Change("--loss chunked:8", {"loss": "chunked:8"}),
    Change("--optimizer adamw-fused", {"optimizer": "adamw-fused"}),
    Change("--recompute attention", {"recompute": "attention"}),
    Change("--recompute layers.*.ffn", {"recompute": "layers.*.ffn"}),
    Change("--recompute layer", {"recompute": "layer"}),
    Change("--optimizer adam8bit", {"optimizer": "adam8bit"}),
    Change("--batch-size 1", {"batch_size": 1}),
)
"""Changes of a training step, by what they cost: nothing, some operations again, a layer again, precision."""
SERVING = (
    Change("--attention flash", {"attention": "flash"}),
    Change("--chunk 512", {"chunk": 512}),
    Change("--batch-size 1", {"batch_size": 1}),
)
CHANGES = {"train": TRAINING, "prefill": SERVING[:1], "decode": SERVING[2:], "serve": SERVING}


def cheapest_change(question: MemoryQuestion) -> Record | None:
    """The first change that would fit, with its bytes; None where no single one does."""
    if question.device is None:
        return None
    for change in CHANGES[question.settings.phase]:
        answer = _needed(question, change.settings)
        if answer is not None and answer["needed_bytes"] <= question.device.memory_bytes:
            return {"change": change.option, **answer}
    return None


def alternatives(question: MemoryQuestion) -> Iterator[Table]:
    """A table each for recomputation, optimizers and attention: the peak with each, all else as asked."""
    for title, name, values in _choices(question):
        records = [_record(question, name, value) for value in values]
        columns = (
            Column("value", title),
            Column("peak_bytes", "peak", "bytes"),
            Column("moment", "at"),
            Column("fits", "fits", "flag"),
        )
        yield Table(title, columns, [record for record in records if record])


def _choices(question: MemoryQuestion) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    if question.settings.phase == "train":
        yield "recomputation", "recompute", ("none", "attention", "layers.*.ffn", "layer")
        yield "optimizer", "optimizer", tuple(OPTIMIZERS)
        yield "loss", "loss", ("plain", "chunked:8", "fused")
    yield "attention", "attention", ("flash", "eager")


def _record(question: MemoryQuestion, name: str, value: Any) -> Record:
    found = _needed(question, {name: value})
    if found is None:
        return {}
    device = question.device
    fits = None if device is None else found["needed_bytes"] <= device.memory_bytes
    return {"value": value, **found, "fits": fits}


def _needed(question: MemoryQuestion, settings: dict[str, Any]) -> Record | None:
    """The peak with these settings; None where they are what is asked already, or cannot be."""
    if replace(question.settings, **settings) == question.settings:
        answer = question.answer()
    else:
        try:
            answer = question.changed(**settings).answer()
        except ArchError:
            return None
    return {
        "peak_bytes": answer.peak_bytes,
        "needed_bytes": answer.needed_bytes,
        "moment": answer.largest.peak.stage,
    }
