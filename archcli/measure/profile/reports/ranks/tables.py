"""Tables of a profile of several ranks: classes, operators, collectives, each rank's time, quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.reports.disturbance import disturbance_facts
from archcli.measure.profile.reports.one.figures import COLUMNS, ROOFLINE_COLUMNS
from archcli.measure.report import Column, Table, facts
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED, label_of

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
    yield _class_table(totals, columns)
    title = f"By operator: the slowest {top} of {len(rows)}" if 0 < top < len(rows) else "By operator"
    records = [{**row, "class": label_of(row["class"])} for row in rows[: top or None]]
    yield Table(title, (Column("path", "operator"), Column("class", "class", minor=True), *columns), records)
    if totals["communication"]:
        yield Table("What the ranks exchange", OF_EXCHANGE, totals["communication"])
    yield _rank_table(totals["ranks"])
    yield _quality_table(totals)


def _class_table(totals: Mapping[str, Any], columns: Sequence[Column]) -> Table:
    by_class = [{"class": name, **figures} for name, figures in totals["by_class"].items()]
    classes = [record for record in by_class if record["seconds"] or record["bytes"]]
    classes.sort(key=lambda record: (record["class"] in {FRAMEWORK, UNATTRIBUTED}, -record["seconds"]))
    title = f"Where the time goes, median of {totals['ranks']['n']} ranks"
    title += "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    records = [{**record, "class": label_of(record["class"])} for record in classes]
    return Table(title, (Column("class", "class"), *columns), records)


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
        ("traced / plain", totals["overhead_ratio"], "ratio"),
        ("operations / plain", totals["attributed_share"], "share"),
        ("framework (Python, dispatch, views)", totals["framework_share"], "share"),
        ("unattributed", totals["unattributed_share"], "share"),
        ("torch operations outside of any row", totals["unlabelled_share"], "share"),
        ("page faults per pass", totals["page_faults_per_pass"], "count"),
        ("involuntary context switches per second", round(totals["context_switches_per_s"]), "count"),
        ("processes per processor when they began", f"{totals['load_per_processor']:.1f}", "text"),
        *disturbance_facts(totals["disturbance"]),
        *((name, value, "text") for name, value in totals["machine"].items() if name != "states"),
    )
