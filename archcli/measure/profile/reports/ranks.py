"""The report of a profile of all ranks of a plan: medians over them, and what each sent.

Ranks differ in their part of the vocabulary, in what the experts of their replica are given, and in how long
they wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

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
from archcli.measure.profile.reports.one import COLUMNS, CONVENTION, ROOFLINE_COLUMNS
from archcli.measure.profile.schema.records import CollectiveFigures, RanksFigures
from archcli.measure.report import Column, Report, Table, facts
from archcli.recording.operations import CollectiveTime


class RunOfRanks(NamedTuple):
    """How ranks ran together: how many share matrices, how many replicas, what moved tensors."""

    tp: int
    dp: int
    backend: str


class RankDocument(NamedTuple):
    """What one rank measured: the parts of its report, and its collectives."""

    totals: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    collectives: Sequence[CollectiveTime]


def joined_totals(documents: Sequence[RankDocument], run: RunOfRanks) -> dict[str, Any]:
    """The totals of all ranks: medians, and whatever any of them lacks."""
    totals = [document.totals for document in documents]
    apart = {"by_class", "reliable", "operations_differing", "launches_lost", "warnings"}
    alike = [{key: value for key, value in rank.items() if key not in apart} for rank in totals]
    return {
        **middle(alike),
        "by_class": joined_classes(totals, of_all_ranks),
        # all, not most: ranks wait for each other, so that one disturbed rank slows every other
        "reliable": all(rank["reliable"] for rank in totals),
        "ranks": _ranks(totals, run),
        "communication": _communication(documents),
        "operations_differing": joined_names(totals, "operations_differing"),
        "launches_lost": joined_names(totals, "launches_lost"),
    }


def of_all_ranks(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a class or operator: medians over the ranks, and the longest time."""
    return {**middle(figures), "slowest_s": max(rank["seconds"] for rank in figures)}


def _ranks(totals: Sequence[Mapping[str, Any]], run: RunOfRanks) -> RanksFigures:
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


def _communication(documents: Sequence[RankDocument]) -> list[CollectiveFigures]:
    by_kind: dict[str, list[CollectiveTime]] = defaultdict(list)
    for document in documents:
        for kind, of_rank in _of_rank(document.collectives).items():
            by_kind[kind].append(of_rank)
    return [_collective(kind, of_ranks) for kind, of_ranks in by_kind.items()]


def _of_rank(collectives: Sequence[CollectiveTime]) -> dict[str, CollectiveTime]:
    """The collectives of a rank by kind, those of rows and of replicas together."""
    by_kind: dict[str, CollectiveTime] = {}
    for one in collectives:
        before = by_kind.get(one.collective)
        by_kind[one.collective] = one if before is None else before.plus(one)
    return by_kind


def _collective(kind: str, of_ranks: Sequence[CollectiveTime]) -> CollectiveFigures:
    seconds, sent = median(one.seconds for one in of_ranks), middle([one.bytes for one in of_ranks])
    return {
        "collective": kind,
        "calls": middle([one.calls for one in of_ranks]),
        "bytes": sent,
        "time_s": seconds,
        "exposed_s": median(one.exposed_s for one in of_ranks),
        "slowest_s": max(one.seconds for one in of_ranks),
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
        # neighbours share matrices, as in the groups of `collective.py`
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


OF_RANKS = (
    "Figures are those of one rank: medians over the ranks, each for itself, so that shares need not add up "
    "to 100%. Bytes of communication are those that a rank sends over a ring, its time is what no computing "
    "of the rank hides, and its GB/s are of all the time under way."
)


def of_ranks(
    documents: Sequence[RankDocument], run: RunOfRanks, inputs: Mapping[str, Any], top: int = 0
) -> Report:
    """The report of all ranks, in their order; `top` 0 shows all operators."""
    totals, rows = (
        joined_totals(documents, run),
        joined_rows([document.rows for document in documents], of_all_ranks),
    )
    warnings = list(joined_notes([document.totals["warnings"] for document in documents], "ranks"))
    return Report(
        command="profile",
        model={"name": "", "source": ""},
        inputs={**inputs, "tp": run.tp, "dp": run.dp},
        usual={**usual_inputs(inputs["phase"]), "tp": 1, "dp": 1},
        convention=f"{CONVENTION} {OF_RANKS}",
        totals={**totals, "warnings": warnings},
        rows=rows,
        tables=tuple(tables_of(totals, rows, top)),
        notes=(
            *joined_notes([document.notes for document in documents], "ranks"),
            *_on_ranks(inputs["phase"], run),
        ),
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
