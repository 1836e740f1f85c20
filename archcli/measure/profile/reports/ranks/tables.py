"""Tables of a profile of several ranks: classes, operators, collectives, each rank's time, quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.reports.joined_tables import class_table, operator_table, quality_facts
from archcli.measure.profile.reports.one.figures import COLUMNS, ROOFLINE_COLUMNS
from archcli.measure.report import Column, Table, facts

SLOWEST = Column("slowest_s", "slowest rank", "seconds")
OF_EXCHANGE = (
    Column("collective", "collective"),
    Column("calls", "calls", "number"),
    Column("bytes", "sent by a rank", "bytes"),
    Column("time_s", "time", "seconds"),
    Column("slowest_s", "slowest rank", "seconds"),
    Column("exposed_s", "exposed", "seconds"),
    Column("gbytes_per_s", "GB/s"),
)


def tables_of(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
    """All tables; `top` 0 shows every operator."""
    columns = [*COLUMNS[:4], SLOWEST, *COLUMNS[4:], *(ROOFLINE_COLUMNS if totals["ceilings"] else ())]
    yield class_table(f"Where the time goes, median of {totals['ranks']['n']} ranks", columns, totals)
    yield operator_table(columns, rows, top)
    if totals["communication"]:
        yield Table("What the ranks exchange", OF_EXCHANGE, totals["communication"])
    yield _rank_table(totals["ranks"])
    yield _quality_table(totals)


def _rank_table(ranks: Mapping[str, Any]) -> Table:
    """The wall time of each rank, which waits for the others."""
    columns = (
        Column("rank", "rank", "number"),
        Column("tp", "tp rank", "number"),
        Column("dp", "dp rank", "number"),
        Column("wall_s", "plain wall", "seconds"),
    )
    tp = ranks["tp"]
    records = [
        {"rank": rank, "tp": rank % tp, "dp": rank // tp, "wall_s": wall}
        for rank, wall in enumerate(ranks["walls_s"])
    ]
    return Table("By rank", columns, records)


def _quality_table(totals: Mapping[str, Any]) -> Table:
    ranks = totals["ranks"]
    return facts(
        "How far to trust it",
        ("ranks", f"{ranks['n']}: tp {ranks['tp']} x dp {ranks['dp']}, {ranks['backend']}", "text"),
        ("plain wall, median over ranks", ranks["median"], "seconds"),
        ("plain wall, the slowest rank", ranks["slowest"], "seconds"),
        ("pairs of passes", totals["pairs"], "count"),
        ("FLOPs of matrix products, all ranks", ranks["matmul_flops"], "flops"),
        *quality_facts(totals),
    )
