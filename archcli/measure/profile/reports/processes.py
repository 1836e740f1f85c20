"""One report of the documents of several processes: intervals within one process are two to five times too narrow.

What memory a process was given, where its threads ran and how fast the processor was at the time differ between processes and not between
the passes of one. So every figure is the median over the processes, and shares come with their range.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, median_low, stdev
from typing import Any

from archcli.measure.profile.ivanov.report import tables_of as tables_of_ivanov
from archcli.measure.profile.reports.by_kind import tables_of as tables_of_kinds
from archcli.measure.profile.reports.one import words
from archcli.measure.profile.schema.whole import Profile
from archcli.measure.report import Column, Report, Table, facts
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED

CONVENTION = "Figures are medians over fresh processes, each for itself, so that shares need not add up to 100%; least and most are of one process."  # noqa: E501
COLUMNS = (
    Column("flop_share", "FLOP share", "share", minor=True),
    Column("byte_share", "byte share", "share", minor=True),
    Column("time_share", "time share", "share"),
    Column("least", "least", "share"),
    Column("most", "most", "share"),
    Column("time_share_sd", "sd", "share"),
    Column("seconds", "time", "seconds"),
)
FEW = 3
"""Processes below which a range says little."""


def repeated(documents: Sequence[Profile], asked: int, top: int = 0) -> Report:
    """What the processes that finished, of so many `asked` for, say together; `top` 0 shows every operator."""
    first = documents[0]
    totals, rows = _totals(documents, asked), _rows(documents)
    return Report(
        command=first["command"],
        model={"name": first["model"]["name"], "source": first["model"]["source"]},
        inputs={**first["inputs"], "repeat_process": asked},
        convention=f"{first['convention']} {CONVENTION}",
        totals=totals,
        rows=rows,
        tables=(*_tables(totals, rows, top), _honesty(totals)),
        notes=tuple(_notes(documents, asked)),
    )


def middle(values: Sequence[Any]) -> Any:
    """What several processes say of one thing: the median of numbers, key by key and item by item; of words those said most often."""
    said = [value for value in values if value is not None]
    if not said or all(value == said[0] for value in said):
        return said[0] if said else None
    if isinstance(said[0], Mapping):
        return {
            key: middle([one[key] for one in said if key in one])
            for key in dict.fromkeys(chain.from_iterable(said))
        }
    if isinstance(said[0], list):
        return [middle(each) for each in zip(*said, strict=False)]
    if isinstance(said[0], str | bool):
        return max(said, key=said.count)
    return median_low(said) if all(isinstance(value, int) for value in said) else median(said)


def _totals(documents: Sequence[Profile], asked: int) -> dict[str, Any]:
    every = [document["totals"] for document in documents]
    passes = ("plain_s", "traced_s", "operations_differing", "launches_lost")
    walls = [each["wall_s"] for each in every]
    return {
        **middle(
            [
                {key: value for key, value in each.items() if key not in {"by_class", *passes}}
                for each in every
            ]
        ),
        "by_class": {
            name: _varied([each["by_class"][name] for each in every]) for name in every[0]["by_class"]
        },
        "processes": len(every),
        "pairs": sum(each["pairs"] for each in every),
        "pairs_rejected": sum(each["pairs_rejected"] for each in every),
        "partial": len(every) < asked or any(each["partial"] for each in every),
        "reliable": 2 * sum(each["reliable"] for each in every) > len(every) and not any(map(_amiss, every)),
        "plain_s": [seconds for each in every for seconds in each["plain_s"]],
        "traced_s": [seconds for each in every for seconds in each["traced_s"]],
        **{
            key: sorted({name for each in every for name in each[key]})
            for key in ("operations_differing", "launches_lost")
        },
        "wall_s_range": [min(walls), max(walls)],
        "wall_s_sd": _deviation(walls),
    }


def _amiss(totals: Mapping[str, Any]) -> bool:
    """Whether a trace had other operations than the census, or lacked kernels."""
    return bool(totals["operations_differing"] or totals["launches_lost"])


def _rows(documents: Sequence[Profile]) -> list[dict[str, Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in chain.from_iterable(document["rows"] for document in documents):
        found[row["path"]].append(row)
    return sorted(map(_varied, found.values()), key=lambda row: -row["seconds"])


def _varied(figures: Sequence[Any]) -> dict[str, Any]:
    """The figures of one class or operator in every process, with how its share of the time varies."""
    shares = [each["time_share"] for each in figures]
    return {
        **middle(figures),
        "time_share_range": [min(shares), max(shares)],
        "time_share_sd": _deviation(shares),
    }


def _deviation(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _tables(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
    classes = [
        {"class": name, **each}
        for name, each in totals["by_class"].items()
        if each["seconds"] or each["bytes"]
    ]
    classes.sort(key=lambda record: (record["class"] in {FRAMEWORK, UNATTRIBUTED}, -record["seconds"]))
    title = (
        f"Where the time goes, in {totals['processes']} processes{', extrapolated' * totals['extrapolated']}"
    )
    doubt = "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    yield Table(f"{title}{doubt}", (Column("class", "class"), *COLUMNS), _shown(classes))
    if "ivanov" in totals:
        yield from tables_of_ivanov(totals)
        return
    title = f"By operator: the slowest {top} of {len(rows)}" if 0 < top < len(rows) else "By operator"
    yield Table(
        title,
        (Column("path", "operator"), Column("class", "class", minor=True), *COLUMNS),
        _shown(rows[: top or None]),
    )
    if "kinds" in totals:
        yield from tables_of_kinds(totals)


def _shown(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    ends = [each["time_share_range"] for each in records]
    return [
        {**each, "class": words(each["class"]), "least": least, "most": most}
        for each, (least, most) in zip(records, ends, strict=True)
    ]


def _honesty(totals: Mapping[str, Any]) -> Table:
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
        *((name, value, "text") for name, value in totals["machine"].items()),
    )


def _notes(documents: Sequence[Profile], asked: int) -> Iterator[str]:
    """What every process notes, and with their number what only some do; notes that differ in figures alone are one."""
    done = len(documents)
    if done < asked:
        yield f"PARTIAL: interrupted after {done} of {asked} processes."
    if done < FEW:
        yield f"{done} process{'es are' if done > 1 else ' is'} few: a range of so few says little."
    found: dict[str, list[str]] = defaultdict(list)
    for note in chain.from_iterable(document["notes"] for document in documents):
        found[re.sub(r"-?\d[\d.,]*", "#", note)].append(note)
    for notes in found.values():
        yield (
            notes[0]
            if len(notes) == done and len(set(notes)) == 1
            else f"In {len(notes)} of {done} processes: {notes[0]}"
        )
