"""The table of serving: which batch sizes and contexts fit into the device."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.report import Column, Table

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = 6


def serve_table(question: MemoryQuestion) -> Iterator[Table]:
    """Batch size by context: a tick where both fit; nothing without a device, or where nothing fits.

    It ends with the first batch size of which nothing fits.
    """
    if question.device is None:
        return
    longest = question.settings.tokens(question.model)
    contexts = [size for size in (longest >> i for i in range(CONTEXTS)) if size][::-1]
    most = {n: _most(question.changed(seq_len=n)) for n in contexts}
    if not any(most.values()):
        return
    records = [
        {"batch_size": batch, **{str(n): i < most[n] for n in contexts}}
        for i, batch in enumerate(BATCHES[: max(most.values()) + 1])
    ]
    columns = (
        Column("batch_size", "sequences", "number"),
        *(Column(str(n), f"{n:,}", "flag") for n in contexts),  # short, so that 60 columns hold all
    )
    yield Table(f"what fits into {question.device.name}: sequences of so many tokens", columns, records)


def _most(question: MemoryQuestion) -> int:
    """How many of the batch sizes fit: more sequences take more."""
    low, high = 0, len(BATCHES)
    while low < high:
        middle = (low + high) // 2
        fits = question.changed(batch_size=BATCHES[middle]).fits()
        low, high = (middle + 1, high) if fits else (low, middle)
    return low
