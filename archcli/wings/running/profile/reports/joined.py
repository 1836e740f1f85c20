"""Documents of one pass joined into one report: of fresh processes, or of the ranks of a plan.

Processes: intervals within one are two to five times too narrow. Its memory layout, the cores of its threads
and the speed of the processor differ between processes, and not between the passes of one.

Ranks differ in their part of the vocabulary, in the tokens of their replica's experts, and in how long they
wait for each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, median_low, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.measure.report import Column, Fact, Report, Table
from archcli.wings.running.profile.reports.one import (
    COLUMNS,
    ROOFLINE_COLUMNS,
    class_table,
    operator_table,
    part_tables,
    quality_table,
    usual_inputs,
)
from archcli.wings.running.profile.reports.sections import where_the_time_goes
from archcli.wings.serving.recorded.operations import CollectiveTime

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.records import CollectiveFigures, RanksFigures

Figures = Mapping[str, Any]
Join = Callable[[Sequence[Figures]], dict[str, Any]]
"""Joins the figures of a class or an operator in all documents."""


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


def _joined_totals(totals: Sequence[Figures], join: Join, apart: set[str]) -> dict[str, Any]:
    """Medians of the totals, and their classes joined; keys `apart` are left out."""
    apart = apart | {"by_class", "operations_differing", "launches_lost", "warnings"}
    alike = [{key: value for key, value in figures.items() if key not in apart} for figures in totals]
    classes = totals[0]["by_class"]
    return {
        **middle(alike),
        "by_class": {name: join([figures["by_class"][name] for figures in totals]) for name in classes},
    }


def _lacking(totals: Sequence[Figures]) -> dict[str, list[str]]:
    """Operations and launches that are missing or extra in the trace of any process or rank."""
    keys = ("operations_differing", "launches_lost")
    return {key: sorted({name for figures in totals for name in figures[key]}) for key in keys}


def _joined_rows(documents: Sequence[Figures], join: Join) -> list[dict[str, Any]]:
    """The operators of all documents by path, joined, the slowest first."""
    by_path: dict[str, list[Figures]] = defaultdict(list)
    for row in chain.from_iterable(document["rows"] for document in documents):
        by_path[row["path"]].append(row)
    return sorted(map(join, by_path.values()), key=lambda row: -row["seconds"])


def _joined_notes(notes: Sequence[Sequence[str]], of_what: str) -> Iterator[str]:
    """The notes of all processes or ranks; a note of some begins with their number.

    Notes that differ in figures alone have one wording.
    """
    by_wording: dict[str, list[str]] = defaultdict(list)
    for note in chain.from_iterable(notes):
        by_wording[re.sub(r"-?\d[\d.,]*", "#", note)].append(note)
    for alike in by_wording.values():
        shared = len(alike) == len(notes) and len(set(alike)) == 1
        yield alike[0] if shared else f"In {len(alike)} of {len(notes)} {of_what}: {alike[0]}"


def _process_totals(documents: Sequence[Figures], wanted: int) -> dict[str, Any]:
    """The totals of all processes: medians, sums of passes, ranges of the wall time."""
    totals = [document["totals"] for document in documents]
    walls, lacking = [process["wall_s"] for process in totals], _lacking(totals)
    reliable = sum(process["reliable"] for process in totals)
    return {
        **_joined_totals(totals, _varied, {"plain_s", "traced_s"}),
        "processes": len(totals),
        "pairs": sum(process["pairs"] for process in totals),
        "pairs_rejected": sum(process["pairs_rejected"] for process in totals),
        "partial": len(totals) < wanted or any(process["partial"] for process in totals),
        # a median is sound while most processes are; an incomplete trace is no noise, and one is too many
        "reliable": 2 * reliable > len(totals) and not any(lacking.values()),
        "plain_s": [seconds for process in totals for seconds in process["plain_s"]],
        "traced_s": [seconds for process in totals for seconds in process["traced_s"]],
        **lacking,
        "wall_s_range": [min(walls), max(walls)],
        "wall_s_sd": _deviation(walls),
    }


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


VARIED_COLUMNS = (
    Column("flop_share", "FLOP share", "share", minor=True),
    Column("byte_share", "byte share", "share", minor=True),
    Column("time_share", "time share", "share"),
    Column("least", "least", "share"),
    Column("most", "most", "share"),
    Column("time_share_sd", "sd", "share"),
    Column("seconds", "time", "seconds"),
)


def _process_tables(totals: Figures, rows: Sequence[Figures], top: int) -> Iterator[Table]:
    extrapolated = ", extrapolated" * totals["extrapolated"]
    title = f"Where the time goes, in {totals['processes']} processes{extrapolated}"
    by_class = {name: _with_range(figures) for name, figures in totals["by_class"].items()}
    yield class_table(title, VARIED_COLUMNS, {**totals, "by_class": by_class})
    yield from part_tables(COLUMNS[:4], totals)
    yield operator_table(VARIED_COLUMNS, [_with_range(row) for row in rows], top)
    if "kinds" in totals:
        from archcli.wings.running.profile.reports.by_kind import kind_tables  # of models that do not fit

        yield from kind_tables(totals)
    least, most = (seconds * 1e3 for seconds in totals["wall_s_range"])
    pairs = f"{totals['pairs']}, {totals['pairs_rejected']}"
    walls: list[Fact] = [
        ("fresh processes, one after another", totals["processes"], "count"),
        ("plain wall, median over processes", totals["wall_s"], "seconds"),
        ("plain wall, fastest to slowest process", f"{least:.1f} to {most:.1f} ms", "text"),
        ("plain wall, standard deviation between processes", totals["wall_s_sd"], "seconds"),
        ("pairs of passes in all, rejected as disturbed", pairs, "text"),
    ]
    yield quality_table(totals, walls)


def _with_range(record: Figures) -> dict[str, Any]:
    """A record with the ends of its range in columns of their own."""
    least, most = record["time_share_range"]
    return {**record, "least": least, "most": most}


OF_PROCESSES = (
    "Figures are medians over fresh processes, each for itself, so that shares need not add up to 100%; "
    "least and most are of one process."
)
FEWEST = 3
"""The fewest processes of which a range says something."""


def repeated(documents: Sequence[Figures], wanted: int, top: int = 0) -> Report:
    """The documents of the processes that finished, of `wanted` in all, as one report.

    `top` 0 shows all operators.
    """
    first, few = documents[0], tuple(_few_processes(len(documents), wanted))
    totals, rows = _process_totals(documents, wanted), _joined_rows(documents, _varied)
    warnings = [document["totals"].get("warnings", []) for document in documents]
    notes = [document["notes"] for document in documents]
    return Report(
        command=first["command"],
        model={"name": first["model"]["name"], "source": first["model"]["source"]},
        inputs={**first["inputs"], "repeat_process": wanted},
        usual=usual_inputs(first["inputs"]["phase"]),
        convention=f"{first['convention']} {OF_PROCESSES}",
        totals={**totals, "warnings": [*few, *_joined_notes(warnings, "processes")]},
        rows=rows,
        tables=tuple(_process_tables(totals, rows, top)),
        notes=(*few, *_joined_notes(notes, "processes")),
        headline=where_the_time_goes(totals, f"a pass, of {len(documents)} processes"),
    )


def _few_processes(done: int, wanted: int) -> Iterator[str]:
    if done < wanted:
        yield f"PARTIAL: interrupted after {done} of {wanted} processes."
    if done < FEWEST:
        yield f"{done} process{'es are' if done > 1 else ' is'} few: a range of so few says little."


class RunOfRanks(NamedTuple):
    """The run of several ranks: tp, dp, and the backend of their collectives."""

    tp: int
    dp: int
    backend: str


Collectives = Sequence[CollectiveTime]
"""The collectives of one rank."""


def rank_totals(
    documents: Sequence[Figures], collectives: Sequence[Collectives], run: RunOfRanks
) -> dict[str, Any]:
    """The totals of all ranks: medians, and all that the trace of any rank lacks."""
    totals = [document["totals"] for document in documents]
    return {
        **_joined_totals(totals, _of_all_ranks, {"reliable"}),
        # all, not most: ranks wait for each other, so that one disturbed rank slows every other
        "reliable": all(rank["reliable"] for rank in totals),
        "ranks": _ranks(totals, run),
        "communication": _communication(collectives),
        **_lacking(totals),
    }


def _of_all_ranks(figures: Sequence[Figures]) -> dict[str, Any]:
    """The figures of a class or operator: medians over the ranks, and the longest time."""
    return {**middle(figures), "slowest_s": max(rank["seconds"] for rank in figures)}


def _ranks(totals: Sequence[Figures], run: RunOfRanks) -> RanksFigures:
    walls = [rank["wall_s"] for rank in totals]
    return {
        "n": len(totals),
        "tp": run.tp,
        "dp": run.dp,
        "backend": run.backend,
        "median": median(walls),
        "slowest": max(walls),
        "slowest_rank": walls.index(max(walls)),
        "walls_s": walls,
        "matmul_flops": sum(rank["matmul_flops"] for rank in totals),
        "other_flops": sum(rank["other_flops"] for rank in totals),
    }


def _communication(collectives: Sequence[Collectives]) -> list[CollectiveFigures]:
    """Each kind of collective over all ranks, those of rows and of replicas together."""
    by_kind: dict[str, list[CollectiveTime]] = defaultdict(list)
    for of_rank in collectives:
        sums: dict[str, CollectiveTime] = {}
        for time in of_rank:
            before = sums.get(time.collective)
            sums[time.collective] = time if before is None else before.plus(time)
        for kind, time in sums.items():
            by_kind[kind].append(time)
    return [_collective(kind, times) for kind, times in by_kind.items()]


def _collective(kind: str, times: Sequence[CollectiveTime]) -> CollectiveFigures:
    seconds, sent = median(time.seconds for time in times), middle([time.bytes for time in times])
    return {
        "collective": kind,
        "calls": middle([time.calls for time in times]),
        "bytes": sent,
        "time_s": seconds,
        "exposed_s": median(time.exposed_s for time in times),
        "slowest_s": max(time.seconds for time in times),
        "gbytes_per_s": sent / seconds / 1e9 if sent and seconds else None,
    }


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


def _rank_tables(totals: Figures, rows: Sequence[Figures], top: int) -> Iterator[Table]:
    ranks = totals["ranks"]
    columns = [*COLUMNS[:4], SLOWEST, *COLUMNS[4:], *(ROOFLINE_COLUMNS if totals["ceilings"] else ())]
    yield class_table(f"Where the time goes, median of {ranks['n']} ranks", columns, totals)
    yield operator_table(columns, rows, top)
    if totals["communication"]:
        yield Table("What the ranks exchange", OF_EXCHANGE, totals["communication"])
    yield _rank_table(ranks)
    walls: list[Fact] = [
        ("ranks", f"{ranks['n']}: tp {ranks['tp']} x dp {ranks['dp']}, {ranks['backend']}", "text"),
        ("plain wall, median over ranks", ranks["median"], "seconds"),
        ("plain wall, the slowest rank", ranks["slowest"], "seconds"),
        ("pairs of passes", totals["pairs"], "count"),
        ("FLOPs of matrix products, all ranks", ranks["matmul_flops"], "flops"),
    ]
    yield quality_table(totals, walls)


def _rank_table(ranks: Figures) -> Table:
    """The wall time of each rank, which waits for the others."""
    columns = (
        Column("rank", "rank", "number"),
        Column("tp", "tp rank", "number"),
        Column("dp", "dp rank", "number"),
        Column("wall_s", "plain wall", "seconds"),
    )
    tp = ranks["tp"]
    records = [
        # neighbours share matrices, as in the groups of `collective.py`
        {"rank": rank, "tp": rank % tp, "dp": rank // tp, "wall_s": wall}
        for rank, wall in enumerate(ranks["walls_s"])
    ]
    return Table("By rank", columns, records)


OF_RANKS = (
    "Figures are those of one rank: medians over the ranks, each for itself, so that shares need not add up "
    "to 100%. Bytes of communication are those that a rank sends over a ring, its time is what no computing "
    "of the rank hides, and its GB/s are of all the time under way."
)


def of_ranks(
    documents: Sequence[Figures],
    collectives: Sequence[Collectives],
    run: RunOfRanks,
    inputs: Mapping[str, Any],
    top: int = 0,
) -> Report:
    """The report of all ranks, in their order; `top` 0 shows all operators."""
    first = documents[0]
    totals, rows = rank_totals(documents, collectives, run), _joined_rows(documents, _of_all_ranks)
    warnings = [document["totals"]["warnings"] for document in documents]
    notes = [document["notes"] for document in documents]
    return Report(
        command=first["command"],
        model=first["model"],
        inputs={**inputs, "tp": run.tp, "dp": run.dp},
        usual={**usual_inputs(inputs["phase"]), "tp": 1, "dp": 1},
        convention=f"{first['convention']} {OF_RANKS}",
        totals={**totals, "warnings": list(_joined_notes(warnings, "ranks"))},
        rows=rows,
        tables=tuple(_rank_tables(totals, rows, top)),
        notes=(*_joined_notes(notes, "ranks"), *_on_ranks(inputs["phase"], run)),
        headline=where_the_time_goes(totals, f"a pass on {run.tp * run.dp} ranks"),
    )


def _on_ranks(phase: str, run: RunOfRanks) -> Iterator[str]:
    """How the ranks ran."""
    if run.tp > 1:
        yield f"Each matrix is shared by {run.tp} ranks; weights are slices of one whole model's."
    if run.dp > 1 and phase == "train":
        yield f"FSDP2 shards weights over {run.dp} replicas, layer by layer; the batch size is that of each."
    elif run.dp > 1:
        yield f"{run.dp} replicas have an equal part of the batch each, and exchange nothing."
    if run.backend == "gloo" and (run.tp > 1 or phase == "train"):
        yield "gloo moves tensors through the processors of this machine, which compute meanwhile."
