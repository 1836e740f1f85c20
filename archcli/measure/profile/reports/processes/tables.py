"""Tables of a profile of several processes: shares with ranges, and the quality of the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.ivanov.report import ivanov_tables
from archcli.measure.profile.reports.by_kind import kind_tables
from archcli.measure.profile.reports.joined_tables import class_table, operator_table, quality_facts
from archcli.measure.report import Column, Table, facts

COLUMNS = (
    Column("flop_share", "FLOP share", "share", minor=True),
    Column("byte_share", "byte share", "share", minor=True),
    Column("time_share", "time share", "share"),
    Column("least", "least", "share"),
    Column("most", "most", "share"),
    Column("time_share_sd", "sd", "share"),
    Column("seconds", "time", "seconds"),
)


def tables_of(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
    """All tables; `top` 0 shows every operator."""
    yield from _figure_tables(totals, rows, top)
    yield _quality_table(totals)


def _figure_tables(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
    title = (
        f"Where the time goes, in {totals['processes']} processes{', extrapolated' * totals['extrapolated']}"
    )
    by_class = {name: _with_range(figures) for name, figures in totals["by_class"].items()}
    yield class_table(title, COLUMNS, {**totals, "by_class": by_class})
    if "ivanov" in totals:
        yield from ivanov_tables(totals)
        return
    yield operator_table(COLUMNS, [_with_range(row) for row in rows], top)
    if "kinds" in totals:
        yield from kind_tables(totals)


def _with_range(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the ends of its range in columns of their own."""
    least, most = record["time_share_range"]
    return {**record, "least": least, "most": most}


def _quality_table(totals: Mapping[str, Any]) -> Table:
    least, most = (seconds * 1e3 for seconds in totals["wall_s_range"])
    return facts(
        "How far to trust it",
        ("fresh processes, one after another", totals["processes"], "count"),
        ("plain wall, median over processes", totals["wall_s"], "seconds"),
        ("plain wall, fastest to slowest process", f"{least:.1f} to {most:.1f} ms", "text"),
        ("plain wall, standard deviation between processes", totals["wall_s_sd"], "seconds"),
        (
            "pairs of passes in all, rejected as disturbed",
            f"{totals['pairs']}, {totals['pairs_rejected']}",
            "text",
        ),
        *quality_facts(totals),
    )
