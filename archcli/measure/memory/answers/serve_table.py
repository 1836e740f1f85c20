"""The table of serving: which batch sizes and contexts fit into the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.report import Column, Table

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = 6


def serve_table(question: MemoryQuestion) -> Iterator[Table]:
    """Batch size by context: a tick where both fit; nothing for another phase or without a device."""
    if question.settings.phase != "serve" or question.device is None:
        return
    longest = question.settings.tokens(question.model)
    contexts = [size for size in (longest >> i for i in range(CONTEXTS)) if size][::-1]
    records = [_record(question, batch, contexts) for batch in BATCHES]
    columns = (
        Column("batch_size", "sequences", "number"),
        *(Column(str(n), f"{n:,} tokens", "flag") for n in contexts),
    )
    yield Table(f"what fits into {question.device.name}", columns, records)


def _record(question: MemoryQuestion, batch: int, contexts: list[int]) -> dict[str, Any]:
    fits = {str(n): question.changed(batch_size=batch, seq_len=n).fits() for n in contexts}
    return {"batch_size": batch, **fits}
