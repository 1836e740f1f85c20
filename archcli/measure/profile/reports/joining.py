"""Figures and tables of several reports of one pass joined: medians over processes or ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, median_low
from typing import Any

from archcli.measure.profile.reports.disturbance import disturbance_facts
from archcli.measure.report import Column, Table, Unit
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED, label_of

Figures = Mapping[str, Any]


def middle(values: Sequence[Any]) -> Any:
    """The middle of JSON values: medians of numbers, the most frequent text or flag.

    Objects are joined key by key, lists item by item.
    """
    known = [value for value in values if value is not None]
    if not known or all(value == known[0] for value in known):
        return known[0] if known else None
    if isinstance(known[0], Mapping):
        keys = dict.fromkeys(chain.from_iterable(known))
        return {key: middle([record[key] for record in known if key in record]) for key in keys}
    if isinstance(known[0], list):
        # lists of one entry a pass may differ in length
        return [middle(items) for items in zip(*known, strict=False)]
    # before the numbers, as a bool is an int
    if isinstance(known[0], str | bool):
        return max(known, key=known.count)
    # a count stays whole: the median of two counts may end in a half
    return median_low(known) if all(isinstance(value, int) for value in known) else median(known)


def joined_classes(
    totals: Sequence[Figures], join: Callable[[Sequence[Figures]], dict[str, Any]]
) -> dict[str, Any]:
    """The figures of each class in all totals, joined."""
    return {name: join([one["by_class"][name] for one in totals]) for name in totals[0]["by_class"]}


def joined_rows(
    reports: Sequence[Sequence[Figures]], join: Callable[[Sequence[Figures]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The operators of all reports by path, joined, the slowest first."""
    by_path: dict[str, list[Figures]] = defaultdict(list)
    for row in chain.from_iterable(reports):
        by_path[row["path"]].append(row)
    return sorted(map(join, by_path.values()), key=lambda row: -row["seconds"])


def joined_names(totals: Sequence[Figures], key: str) -> list[str]:
    """The names that any of the totals has under a key, sorted."""
    return sorted({name for one in totals for name in one[key]})


def joined_notes(notes: Sequence[Sequence[str]], of_what: str) -> Iterator[str]:
    """The notes of all processes or ranks; one that only some have follows their number.

    Notes that differ in figures alone have one wording.
    """
    by_wording: dict[str, list[str]] = defaultdict(list)
    for note in chain.from_iterable(notes):
        by_wording[re.sub(r"-?\d[\d.,]*", "#", note)].append(note)
    for alike in by_wording.values():
        shared = len(alike) == len(notes) and len(set(alike)) == 1
        yield alike[0] if shared else f"In {len(alike)} of {len(notes)} {of_what}: {alike[0]}"


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
