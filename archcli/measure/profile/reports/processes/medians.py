"""Figures of several processes joined: medians over them, and how shares of the time vary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median, median_low, stdev
from typing import Any

from archcli.measure.profile.schema.profile import Profile


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


def joined_totals(documents: Sequence[Profile], asked: int) -> dict[str, Any]:
    """The totals of all processes: medians, sums of passes, ranges of the wall time."""
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
    """The totals that are joined by medians."""
    joined = {"by_class", "plain_s", "traced_s", "operations_differing", "launches_lost", "warnings"}
    return {key: value for key, value in totals.items() if key not in joined}


def _is_incomplete(totals: Mapping[str, Any]) -> bool:
    """Whether a trace had other operations than the census, or lacked kernels."""
    return bool(totals["operations_differing"] or totals["launches_lost"])


def joined_rows(documents: Sequence[Profile]) -> list[dict[str, Any]]:
    """The operators of all processes by path, the slowest first."""
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
