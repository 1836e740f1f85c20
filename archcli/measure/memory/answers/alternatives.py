"""Tables of other settings: recomputation, optimizers, losses and attention, all else as asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.memory.answers.changes import peak_with
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.answers.recomputations import recomputations
from archcli.measure.memory.training.optimizers import OPTIMIZERS
from archcli.measure.report import Column, Table

Record = dict[str, Any]
COLUMNS = (Column("peak_bytes", "peak", "bytes"), Column("moment", "at"), Column("fits", "fits", "flag"))


def alternatives(question: MemoryQuestion) -> Iterator[Table]:
    """A table each for recomputation, optimizers, losses and attention."""
    if question.settings.phase == "train":
        yield _recomputation_table(question)
    for name, values in _choices(question):
        records = [{"value": value, **record} for value, record in _records(question, name, values)]
        yield Table(f"by --{name}", (Column("value", name), *_shown(question)), records)


def _choices(question: MemoryQuestion) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if question.settings.phase == "train":
        yield "optimizer", tuple(OPTIMIZERS)
        yield "loss", ("plain", "chunked:8", "fused")
    yield "attention", ("flash", "eager")


def _records(question: MemoryQuestion, name: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, Record]]:
    for value in values:
        peak = peak_with(question.changed(**{name: value}))
        if peak is not None:
            yield value, {**peak, "fits": _fits(question, peak["needed_bytes"])}


def _recomputation_table(question: MemoryQuestion) -> Table:
    """Each single pattern that frees anything, the most bytes per repeated FLOP first."""
    records = [
        {
            "value": one.setting,
            "peak_bytes": one.peak_bytes,
            "moment": one.moment,
            "freed_bytes": one.freed_bytes,
            "repeated_flops": one.repeated_flops,
            "fits": _fits(question, one.needed_bytes),
        }
        for one in recomputations(question, lambda text: None)  # noqa: ARG005
    ]
    freed = (Column("freed_bytes", "freed", "bytes"), Column("repeated_flops", "repeated", "flops"))
    peak, *others = _shown(question)
    return Table("by --recompute", (Column("value", "recompute"), peak, *freed, *others), records)


def _shown(question: MemoryQuestion) -> tuple[Column, ...]:
    return COLUMNS if question.device is not None else COLUMNS[:2]


def _fits(question: MemoryQuestion, needed: int) -> bool | None:
    return None if question.device is None else needed <= question.device.memory_bytes
