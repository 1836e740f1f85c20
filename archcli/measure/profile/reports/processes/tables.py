"""Tables of a profile of several processes: shares with ranges, and the quality of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.ivanov.report import ivanov_tables
from archcli.measure.profile.reports.by_kind import kind_tables
from archcli.measure.profile.reports.disturbance import disturbance_facts
from archcli.measure.report import Column, Table, facts
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED, label_of

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
    yield _class_table(totals)
    if "ivanov" in totals:
        yield from ivanov_tables(totals)
        return
    title = f"By operator: the slowest {top} of {len(rows)}" if 0 < top < len(rows) else "By operator"
    columns = (Column("path", "operator"), Column("class", "class", minor=True), *COLUMNS)
    yield Table(title, columns, _records(rows[: top or None]))
    if "kinds" in totals:
        yield from kind_tables(totals)


def _class_table(totals: Mapping[str, Any]) -> Table:
    by_class = [{"class": name, **figures} for name, figures in totals["by_class"].items()]
    classes = [record for record in by_class if record["seconds"] or record["bytes"]]
    classes.sort(key=lambda record: (record["class"] in {FRAMEWORK, UNATTRIBUTED}, -record["seconds"]))
    title = (
        f"Where the time goes, in {totals['processes']} processes{', extrapolated' * totals['extrapolated']}"
    )
    warning = "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    return Table(f"{title}{warning}", (Column("class", "class"), *COLUMNS), _records(classes))


def _records(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**record, **_range_figures(record), "class": label_of(record["class"])} for record in records]


def _range_figures(record: Mapping[str, Any]) -> dict[str, float]:
    least, most = record["time_share_range"]
    return {"least": least, "most": most}


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
        ("traced / plain", totals["overhead_ratio"], "ratio"),
        ("operations / plain", totals["attributed_share"], "share"),
        ("framework (Python, dispatch, views)", totals["framework_share"], "share"),
        ("unattributed", totals["unattributed_share"], "share"),
        ("torch operations outside of any row", totals["unlabelled_share"], "share"),
        ("page faults per pass", totals["page_faults_per_pass"], "count"),
        (
            "time in the system, for page faults above all, all threads",
            totals["system_s_per_pass"],
            "seconds",
        ),
        ("involuntary context switches per second", round(totals["context_switches_per_s"]), "count"),
        ("processes per processor when they began", f"{totals['load_per_processor']:.1f}", "text"),
        *disturbance_facts(totals["disturbance"]),
        *((name, value, "text") for name, value in totals["machine"].items()),
    )
