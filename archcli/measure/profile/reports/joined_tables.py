"""Tables of joined reports: by class, by operator, and how far to trust the medians."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.reports.disturbance import disturbance_facts
from archcli.measure.report import Column, Table, Unit
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED, label_of

Figures = Mapping[str, Any]


def class_table(title: str, columns: Iterable[Column], totals: Figures) -> Table:
    """Figures by class of operation, framework and the unattributed rest last."""
    by_class = [{"class": name, **figures} for name, figures in totals["by_class"].items()]
    classes = [record for record in by_class if record["seconds"] or record["bytes"]]
    classes.sort(key=lambda record: (record["class"] in {FRAMEWORK, UNATTRIBUTED}, -record["seconds"]))
    title += "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    return Table(title, (Column("class", "class"), *columns), _labelled(classes))


def operator_table(columns: Iterable[Column], rows: Sequence[Figures], top: int) -> Table:
    """Figures by operator, the slowest first; `top` 0 shows all."""
    title = f"By operator: the slowest {top} of {len(rows)}" if 0 < top < len(rows) else "By operator"
    columns = (Column("path", "operator"), Column("class", "class", minor=True), *columns)
    return Table(title, columns, _labelled(rows[: top or None]))


def _labelled(records: Iterable[Figures]) -> list[dict[str, Any]]:
    return [{**record, "class": label_of(record["class"])} for record in records]


def quality_facts(totals: Figures) -> Iterator[tuple[str, Any, Unit]]:
    """Lines of the quality table that every joined report has: attribution, disturbance, the machine."""
    yield "traced / plain", totals["overhead_ratio"], "ratio"
    yield "operations / plain", totals["attributed_share"], "share"
    yield "framework (Python, dispatch, views)", totals["framework_share"], "share"
    yield "unattributed", totals["unattributed_share"], "share"
    yield "torch operations outside of any row", totals["unlabelled_share"], "share"
    yield "page faults per pass", totals["page_faults_per_pass"], "count"
    yield "time in the system, for page faults above all, all threads", totals["system_s_per_pass"], "seconds"
    yield "involuntary context switches per second", round(totals["context_switches_per_s"]), "count"
    yield "processes per processor when they began", f"{totals['load_per_processor']:.1f}", "text"
    yield from disturbance_facts(totals["disturbance"])
    yield from ((name, value, "text") for name, value in totals["machine"].items() if name != "states")
