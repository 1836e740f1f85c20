"""The layers of a model as groups of repeated layers, as a YAML writes them."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.value import Mapped

MOST_GROUPS = 1000


def groups(layers: Sequence[Mapped], longest: int = 12) -> list[Mapped]:
    """The layers of a model as groups: one layer repeated, or a pattern of at most `longest` layers.

    Greedy: each group takes as many of the remaining layers as a pattern covers, which comes at least twice.
    """
    numbers: dict[str, int] = {}
    known: dict[int, int] = {}
    for layer in layers:
        if id(layer) not in known:
            known[id(layer)] = numbers.setdefault(repr(layer), len(numbers))
    kinds = [known[id(layer)] for layer in layers]
    parts: list[Mapped] = []
    start = 0
    while start < len(kinds):
        covered, period = max((_covered(kinds, start, period), -period) for period in range(1, longest + 1))
        parts.append(_group(layers[start : start - period], covered))
        start += covered
        if len(parts) > MOST_GROUPS:
            raise ArchError(
                Problem(
                    f"the layers fall into more than {MOST_GROUPS:,} groups",
                    "no pattern of theirs comes twice",
                )
            )
    return parts


def _covered(kinds: Sequence[int], start: int, period: int) -> int:
    """The number of layers from `start` that repeat with this period; 0 for fewer than two repeats."""
    end = start + period
    while end < len(kinds) and kinds[end] == kinds[end - period]:
        end += 1
    return end - start if period == 1 or end - start >= 2 * period else 0


def _group(period: Sequence[Mapped], count: int) -> Mapped:
    return (
        {"n_layers": count, "layer": period[0]}
        if len(period) == 1
        else {"n_layers": count, "pattern": list(period)}
    )
