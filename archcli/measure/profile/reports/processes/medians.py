"""Figures of several processes joined: medians over them, and how shares of the time vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any

from archcli.measure.profile.reports.joining import joined_classes, joined_names, middle
from archcli.measure.profile.schema.profile import Profile


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
