"""The report of a profile that several processes ran: medians over them, and ranges of shares.

Intervals within a process are two to five times too narrow: its memory, where its threads ran and how fast
the processor was differ between processes, not between the passes of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import stdev
from typing import Any

from archcli.measure.profile.ivanov.report import ivanov_tables
from archcli.measure.profile.reports.by_kind import kind_tables
from archcli.measure.profile.reports.headings import usual_inputs
from archcli.measure.profile.reports.joining import (
    class_table,
    joined_classes,
    joined_names,
    joined_notes,
    joined_rows,
    middle,
    operator_table,
    quality_facts,
)
from archcli.measure.profile.schema.profile import Profile
from archcli.measure.report import Column, Report, Table, facts


def joined_totals(documents: Sequence[Profile], asked: int) -> dict[str, Any]:
    """The totals of all processes: medians, sums of passes, ranges of the wall time."""
    totals = [document["totals"] for document in documents]
    walls = [process["wall_s"] for process in totals]
    reliable = sum(process["reliable"] for process in totals)
    return {
        **middle([_plain_figures(process) for process in totals]),
        "by_class": joined_classes(totals, varied),
        "processes": len(totals),
        "pairs": sum(process["pairs"] for process in totals),
        "pairs_rejected": sum(process["pairs_rejected"] for process in totals),
        "partial": len(totals) < asked or any(process["partial"] for process in totals),
        # a median is sound while most processes are; an incomplete trace is no noise, and one is too many
        "reliable": 2 * reliable > len(totals) and not any(map(_is_incomplete, totals)),
        "plain_s": [seconds for process in totals for seconds in process["plain_s"]],
        "traced_s": [seconds for process in totals for seconds in process["traced_s"]],
        "operations_differing": joined_names(totals, "operations_differing"),
        "launches_lost": joined_names(totals, "launches_lost"),
        "wall_s_range": [min(walls), max(walls)],
        "wall_s_sd": _deviation(walls),
    }


def _plain_figures(totals: Mapping[str, Any]) -> dict[str, Any]:
    """The totals that are joined by medians."""
    joined = {"by_class", "plain_s", "traced_s", "operations_differing", "launches_lost", "warnings"}
    return {key: value for key, value in totals.items() if key not in joined}


def _is_incomplete(totals: Mapping[str, Any]) -> bool:
    """Whether a trace had other operations than the census, or lacked kernels."""
    return bool(totals["operations_differing"] or totals["launches_lost"])


def varied(figures: Sequence[Any]) -> dict[str, Any]:
    """The figures of a class or operator in every process, and how its share of the time varies."""
    shares = [process["time_share"] for process in figures]
    return {
        **middle(figures),
        "time_share_range": [min(shares), max(shares)],
        "time_share_sd": _deviation(shares),
    }


def _deviation(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) > 1 else None


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


CONVENTION = (
    "Figures are medians over fresh processes, each for itself, so that shares need not add up to 100%; "
    "least and most are of one process."
)
FEWEST = 3
"""The fewest processes of which a range says something."""


def repeated(documents: Sequence[Profile], asked: int, top: int = 0) -> Report:
    """The documents of the processes that finished, of `asked` in all, as one report.

    `top` 0 shows all operators.
    """
    first = documents[0]
    totals = joined_totals(documents, asked)
    rows = joined_rows([document["rows"] for document in documents], varied)
    warnings = [
        *_few_processes(len(documents), asked),
        *joined_notes([document["totals"].get("warnings", []) for document in documents], "processes"),
    ]
    return Report(
        command=first["command"],
        model={"name": first["model"]["name"], "source": first["model"]["source"]},
        inputs={**first["inputs"], "repeat_process": asked},
        usual=usual_inputs(first["inputs"]["phase"]),
        convention=f"{first['convention']} {CONVENTION}",
        totals={**totals, "warnings": warnings},
        rows=rows,
        tables=tuple(tables_of(totals, rows, top)),
        notes=(
            *_few_processes(len(documents), asked),
            *joined_notes([document["notes"] for document in documents], "processes"),
        ),
    )


def _few_processes(done: int, asked: int) -> Iterator[str]:
    if done < asked:
        yield f"PARTIAL: interrupted after {done} of {asked} processes."
    if done < FEWEST:
        yield f"{done} process{'es are' if done > 1 else ' is'} few: a range of so few says little."
