"""Figures of the ranks joined: medians over them, sums of what they share, and the slowest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from archcli.measure.profile.reports.joining import joined_classes, joined_names, middle
from archcli.measure.profile.schema.ranks import CollectiveFigures, RanksFigures
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
