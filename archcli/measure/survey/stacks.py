"""Order of the layers of a stack: runs of like layers, and patterns that repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from archcli.graph.wired_tape import WiredRow

FEW_RUNS = 3
"""As many runs are named one by one, however they repeat."""
# bounds of the search: layers of a period, and layers in front of the first period
LONGEST_PERIOD, FIRST_STARTS = 64, 8
LEAST_SHARE = 0.5
"""The share of a stack that a pattern has to cover."""


class Period(NamedTuple):
    """Layers from `first` on: runs of these `lengths`, `times` in turn."""

    first: int
    times: int
    lengths: tuple[int, ...]

    @property
    def end(self) -> int:
        """The number behind its last layer."""
        return self.first + self.times * sum(self.lengths)


def stack_kinds(rows: Iterable[WiredRow]) -> dict[str, list[str]]:
    """The path of the rows of each layer, by the prefix of its stack: "" or `encoder.`."""
    kinds: dict[str, dict[int, str]] = {}
    for row in rows:
        if row.layers is None:
            continue
        prefix, _, rest = row.path.partition("layers.")
        path = f"{prefix}layers.{rest.partition('.')[0]}"
        of_stack = kinds.setdefault(prefix, {})
        if of_stack.get(row.layers[0]) != path:
            of_stack.update(dict.fromkeys(row.layers, path))
    return {prefix: [path for _, path in sorted(of.items())] for prefix, of in kinds.items()}


def periods(kinds: Sequence[Hashable]) -> list[Period]:
    """Runs of a stack's layers, and the pattern that most of it repeats, if there is one."""
    single = _runs(kinds, 0, len(kinds))
    if len(single) <= FEW_RUNS:
        return single

    def rank(period: Period) -> tuple[int, int, bool]:
        """The period that covers most; of several starts, one that splits no run."""
        first = period.first
        parts_run = first > 0 and kinds[first] == kinds[first - 1]
        return period.end - first, -len(period.lengths), not parts_run

    pattern = max(_patterns(kinds), key=rank, default=None)
    if pattern is None or pattern.end - pattern.first < LEAST_SHARE * len(kinds):
        return single
    before, after = _runs(kinds, 0, pattern.first), _runs(kinds, pattern.end, len(kinds))
    return [*before, pattern, *after]


def _patterns(kinds: Sequence[Hashable]) -> Iterable[Period]:
    """Every pattern that repeats from one of the first layers on, the shortest first."""
    for length in range(2, min(len(kinds) // 2, LONGEST_PERIOD) + 1):
        for first in range(min(FIRST_STARTS, len(kinds) - 2 * length + 1)):
            end = first + length
            while end < len(kinds) and kinds[end] == kinds[end - length]:
                end += 1
            if (times := (end - first) // length) > 1:
                yield Period(first, times, tuple(_lengths(kinds[first : first + length])))


def _runs(kinds: Sequence[Hashable], first: int, end: int) -> list[Period]:
    runs = []
    for length in _lengths(kinds[first:end]):
        runs.append(Period(first, 1, (length,)))
        first += length
    return runs


def _lengths(kinds: Sequence[Hashable]) -> list[int]:
    """The length of each run of equal kinds."""
    return [len(list(run)) for _, run in groupby(kinds)]


def stack_records(rows: Iterable[WiredRow], name: str) -> list[dict[str, object]]:
    """The records of a model's stacks for JSON; `name` is for the stack of a model with only one."""
    return [
        {
            "name": prefix.rstrip(".") or name,
            "n_layers": len(kinds),
            "runs": [period._asdict() | {"lengths": list(period.lengths)} for period in periods(kinds)],
        }
        for prefix, kinds in stack_kinds(rows).items()
    ]
