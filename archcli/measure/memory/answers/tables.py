"""Tables of `archcli memory`: the peak by its parts, ranks, devices, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from archcli.measure.memory.answers.kept_rows import folded_rows
from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.answers.wording import bytes_in_words, device_in_words
from archcli.measure.report import Column, Table

Record = dict[str, Any]
ROWS = 8
LABELS = {
    "kept": "kept for the backward",
    "optimizer": "optimizer states",
    "gathered": "gathered of other devices",
}
BYTES = Column("peak_bytes", "peak", "bytes")


def peak_table(question: MemoryQuestion, totals: Record) -> Table:
    """What the peak is made of, below a line that says whether it fits."""
    peak = totals["peak_bytes"]
    records = [
        {"what": LABELS.get(name, name), "bytes": size, "share": size / peak}
        for name, size in totals["parts"].items()
        if size
    ]
    columns = (Column("what", "what"), Column("bytes", "bytes", "bytes"), Column("share", "share", "share"))
    footer = {"what": "peak", "bytes": peak, "share": 1.0}
    return Table(_headline(question, totals), columns, records, footer)


def _headline(question: MemoryQuestion, totals: Record) -> str:
    while_running = f", while {totals['path']} runs" if totals["path"] else ""
    where = "of the largest rank " if question.plan.devices > 1 else ""
    peak = f"{bytes_in_words(totals['peak_bytes'])} {where}at the peak: {totals['moment']}{while_running}"
    device = question.device
    if device is None:
        return peak
    fits = "fits into" if totals["fits"] else "does not fit into"
    of_each = "" if device.stated else f" ({bytes_in_words(device.memory_bytes)})"
    return f"{fits} {device_in_words(device)}{of_each}: {peak}"


def moment_table(moments: Sequence[Record]) -> Table:
    """The highest point of each moment."""
    columns = (Column("moment", "moment"), Column("path", "while it runs"), BYTES)
    return Table("the highest point of each moment", columns, moments)


def rank_table(ranks: Sequence[Record]) -> Table:
    """The peaks of the ranks that differ."""
    columns = (
        Column("stage", "stage", "number"),
        Column("rank", "rank", "number"),
        Column("moment", "at"),
        BYTES,
    )
    return Table("ranks", columns, ranks)


def device_table(records: Sequence[Record]) -> Table:
    """For each kind of device whether one does, and the fewest that do, with the plan."""
    columns = (
        Column("device", "device"),
        Column("memory_bytes", "memory", "bytes"),
        Column("fits", "fits", "flag"),
        Column("fewest_devices", "fewest", "number"),
        Column("options", "plan"),
    )
    shown = [{**record, "options": record["options"] or None} for record in records]
    return Table("devices, by the memory of the fewest together", columns, shown)


def kept_table(rows: list[Record]) -> Table:
    """What is kept for the backward, the most bytes per FLOP first."""
    records = [
        {**row, "mb_per_gflop": _mb_per_gflop(row["freed_bytes_per_flop"])} for row in folded_rows(rows)
    ]
    columns = (
        Column("path", "made by"),
        Column("kept_bytes", "bytes", "bytes"),
        Column("mb_per_gflop", "MB per GFLOP to make it again", "number"),
    )
    hidden = len(records) - ROWS
    more = f"; {hidden} more rows in --json" if hidden > 0 else ""
    return Table(f"kept for the backward, the cheapest to make again first{more}", columns, records[:ROWS])


def _mb_per_gflop(bytes_per_flop: float | None) -> float | None:
    return None if bytes_per_flop is None else round(bytes_per_flop * 1e3, 3)


def fit_notes(question: MemoryQuestion, totals: Record) -> Iterator[str]:
    """What `--fit` found, and the one change with which it would fit."""
    fit, device = totals["fit"], question.device
    if fit is not None and device is not None:
        yield _fit_in_words(device, fit)
    if totals["fits"] is False and not (fit and fit["value"]):
        change = totals["change"]
        if change is None:
            yield "No one option would make it fit: --fit recompute or --fit devices may."
        else:
            yield f"With {change['change']} it would fit: {bytes_in_words(change['peak_bytes'])} at the peak."


def _fit_in_words(device: DeviceMemory, fit: Record) -> str:
    if fit["value"] is None:
        return f"--fit: nothing that was tried fits into {device.name}."
    if "seq_len" in fit:
        what = f"The longest context that fits: {fit['value']:,} tokens"
    elif "batch_size" in fit:
        what = f"The largest batch that fits: {fit['value']:,} sequences"
    elif "recompute" in fit:
        what = f"The cheapest recomputation that fits: --recompute '{fit['value']}'"
    else:
        what = f"The fewest devices: {fit['value']:,}"
        what += f" with {fit['options']}" if fit["options"] else ""
    return f"{what}, {bytes_in_words(fit['peak_bytes'])} at the peak."
