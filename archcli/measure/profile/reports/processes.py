"""The report of a profile that several processes ran: medians over them, and ranges of shares.

Intervals within a process are two to five times too narrow: its memory, where its threads ran and how fast
the processor was differ between processes, not between the passes of one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, median_low, stdev
from typing import Any

from archcli.measure.profile.ivanov.report import ivanov_tables
from archcli.measure.profile.reports.by_kind import kind_tables
from archcli.measure.profile.schema.profile import Profile
from archcli.measure.report import Column, Report, Table, facts
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED, label_of

CONVENTION = (
    "Figures are medians over fresh processes, each for itself, so that shares need not add up to 100%; "
    "least and most are of one process."
)
COLUMNS = (
    Column("flop_share", "FLOP share", "share", minor=True),
    Column("byte_share", "byte share", "share", minor=True),
    Column("time_share", "time share", "share"),
    Column("least", "least", "share"),
    Column("most", "most", "share"),
    Column("time_share_sd", "sd", "share"),
    Column("seconds", "time", "seconds"),
)
FEWEST = 3
"""The fewest processes of which a range says something."""


def repeated(documents: Sequence[Profile], asked: int, top: int = 0) -> Report:
    """The documents of the processes that finished, of `asked` in all, as one report.

    `top` 0 shows all operators.
    """
    first = documents[0]
    totals, rows = _totals(documents, asked), _rows(documents)
    return Report(
        command=first["command"],
        model={"name": first["model"]["name"], "source": first["model"]["source"]},
        inputs={**first["inputs"], "repeat_process": asked},
        convention=f"{first['convention']} {CONVENTION}",
        totals=totals,
        rows=rows,
        tables=(*_tables(totals, rows, top), _quality_table(totals)),
        notes=tuple(_notes(documents, asked)),
    )


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
        return [middle(items) for items in zip(*known, strict=False)]
    if isinstance(known[0], str | bool):
        return max(known, key=known.count)
    return median_low(known) if all(isinstance(value, int) for value in known) else median(known)


def _totals(documents: Sequence[Profile], asked: int) -> dict[str, Any]:
    totals = [document["totals"] for document in documents]
    walls = [process["wall_s"] for process in totals]
    reliable = sum(process["reliable"] for process in totals)
    return {
        **middle([_plain_figures(process) for process in totals]),
        "by_class": {
            name: _varied([process["by_class"][name] for process in totals]) for name in totals[0]["by_class"]
        },
        "processes": len(totals),
        "pairs": sum(process["pairs"] for process in totals),
        "pairs_rejected": sum(process["pairs_rejected"] for process in totals),
        "partial": len(totals) < asked or any(process["partial"] for process in totals),
        "reliable": 2 * reliable > len(totals) and not any(map(_is_incomplete, totals)),
        "plain_s": [seconds for process in totals for seconds in process["plain_s"]],
        "traced_s": [seconds for process in totals for seconds in process["traced_s"]],
        "operations_differing": sorted(
            {name for process in totals for name in process["operations_differing"]}
        ),
        "launches_lost": sorted({name for process in totals for name in process["launches_lost"]}),
        "wall_s_range": [min(walls), max(walls)],
        "wall_s_sd": _deviation(walls),
    }


def _plain_figures(totals: Mapping[str, Any]) -> dict[str, Any]:
    """The totals of which medians are taken."""
    joined = {"by_class", "plain_s", "traced_s", "operations_differing", "launches_lost"}
    return {key: value for key, value in totals.items() if key not in joined}


def _is_incomplete(totals: Mapping[str, Any]) -> bool:
    """Whether a trace had other operations than the census, or lacked kernels."""
    return bool(totals["operations_differing"] or totals["launches_lost"])


def _rows(documents: Sequence[Profile]) -> list[dict[str, Any]]:
    by_path: dict[str, list[Any]] = defaultdict(list)
    for row in chain.from_iterable(document["rows"] for document in documents):
        by_path[row["path"]].append(row)
    return sorted(map(_varied, by_path.values()), key=lambda row: -row["seconds"])


def _varied(figures: Sequence[Any]) -> dict[str, Any]:
    """The figures of a class or operator in every process, and how its share of the time varies."""
    shares = [process["time_share"] for process in figures]
    return {
        **middle(figures),
        "time_share_range": [min(shares), max(shares)],
        "time_share_sd": _deviation(shares),
    }


def _deviation(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


def _tables(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], top: int) -> Iterator[Table]:
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
    return [{**record, **_range(record), "class": label_of(record["class"])} for record in records]


def _range(record: Mapping[str, Any]) -> dict[str, float]:
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
        *((name, value, "text") for name, value in totals["machine"].items()),
    )


def _notes(documents: Sequence[Profile], asked: int) -> Iterator[str]:
    """Notes that all processes have; of others the first of its wording, and how many have it.

    Notes that differ in figures alone have one wording.
    """
    done = len(documents)
    if done < asked:
        yield f"PARTIAL: interrupted after {done} of {asked} processes."
    if done < FEWEST:
        yield f"{done} process{'es are' if done > 1 else ' is'} few: a range of so few says little."
    by_wording: dict[str, list[str]] = defaultdict(list)
    for note in chain.from_iterable(document["notes"] for document in documents):
        by_wording[re.sub(r"-?\d[\d.,]*", "#", note)].append(note)
    for notes in by_wording.values():
        shared = len(notes) == done and len(set(notes)) == 1
        yield notes[0] if shared else f"In {len(notes)} of {done} processes: {notes[0]}"
