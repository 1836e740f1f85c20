"""Figures of a class or an operator: shares of the pass, rates, the bound; and their columns."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.profile.fold import Breakdown, Tally
from archcli.measure.profile.roofline import bound
from archcli.measure.profile.schema.figures import Figures
from archcli.measure.report import Column
from archcli.recording.classes import COMMUNICATION

COLUMNS = (
    Column("flop_share", "FLOP share", "share"),
    Column("byte_share", "byte share", "share"),
    Column("time_share", "time share", "share"),
    Column("seconds", "time", "seconds"),
    Column("gflops_per_s", "GFLOP/s", minor=True),
    Column("gbytes_per_s", "GB/s", minor=True),
)
BUSY_COLUMN = Column("busy_share", "of busy device", "share")
ROOFLINE_COLUMNS = (
    Column("intensity", "FLOP/byte", minor=True),
    Column("roof", "roof", minor=True),
    Column("roof_share", "of it", "share", minor=True),
)


def columns_of(breakdown: Breakdown) -> Iterator[Column]:
    """The columns of a breakdown: with ceilings also the roofline, on a GPU the share of its busy time."""
    shares, rates = COLUMNS[:3], COLUMNS[3:]
    yield from shares
    if breakdown.busy_s is not None:
        yield BUSY_COLUMN
    yield from rates
    if breakdown.ceilings is not None:
        yield from ROOFLINE_COLUMNS


def figures_of(breakdown: Breakdown, tally: Tally) -> Figures:
    """The figures of a part of a breakdown.

    Rates are None where nothing was computed or moved, or no time taken.
    """
    whole = breakdown.whole
    exchanged = set(tally.by_class) == {COMMUNICATION}  # a link limits it, not this machine
    ceilings = None if exchanged else breakdown.ceilings
    roof, roof_share = bound(tally.executed_flops, tally.bytes, tally.seconds, ceilings) or (None, None)
    return {
        "flops": tally.flops,
        "executed_flops": tally.executed_flops,
        "bytes": tally.bytes,
        "seconds": tally.seconds,
        "flop_share": tally.flops / whole.flops if whole.flops else 0.0,
        "byte_share": tally.bytes / whole.bytes if whole.bytes else 0.0,
        "time_share": tally.seconds / whole.seconds,
        "busy_share": _busy_share(breakdown, tally),
        "gflops_per_s": _giga_per_s(tally.executed_flops, tally.seconds),
        "gbytes_per_s": _giga_per_s(tally.bytes, tally.under_way_s or tally.seconds),
        "intensity": tally.executed_flops / tally.bytes if tally.bytes else None,
        "roof": roof,
        "roof_share": roof_share,
    }


def _busy_share(breakdown: Breakdown, tally: Tally) -> float | None:
    seconds = tally.operations_s
    return seconds / breakdown.busy_s if breakdown.busy_s and seconds is not None else None


def _giga_per_s(amount: int, seconds: float) -> float | None:
    return amount / seconds / 1e9 if amount and seconds > 0 else None
