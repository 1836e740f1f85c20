"""Depth: how many layers each group may have, whole periods of its pattern, and what points at layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import mul
from typing import NamedTuple

from archcli.modules import Model
from archcli.modules.attention.mixer import READS_LAYER
from archcli.modules.models.stack import Group, stacks
from archcli.modules.spec.base import find, settings

STEPS, REACH = 200, 4.0
"""Ratios of depth that are tried, geometrically from 1/REACH to REACH around the one that is asked for."""


class GroupDepth(NamedTuple):
    """A group: the path of its number of layers, that number, and the length of its pattern."""

    path: str
    n_layers: int
    period: int

    def scaled(self, ratio: float) -> int:
        """About `ratio` times the layers: whole periods more or less, so that it ends as it ended."""
        if self.n_layers < self.period:
            return self.n_layers
        rest = self.n_layers % self.period
        periods = max(round((self.n_layers * ratio - rest) / self.period), 1)
        return rest + periods * self.period


Depths = Mapping[str, int]
"""Numbers of layers by path."""


def group_depths(model: Model) -> list[GroupDepth]:
    """All groups of all stacks."""
    return [
        GroupDepth(f"{path}.n_layers", group.n_layers, max(len(group.pattern), 1))
        for path, group in find(model, Group)
    ]


def depths_near(groups: list[GroupDepth], ratio: float, most: int, kept: bool = False) -> list[Depths]:
    """The `most` distinct depths nearest to `ratio` times the base's, the nearest first."""
    if kept:
        return [{group.path: group.n_layers for group in groups}]
    total = sum(group.n_layers for group in groups)
    alike = Counter(group._replace(path="") for group in groups)  # groups of a size are scaled alike
    spread: dict[tuple[int, ...], tuple[int, float, float]] = {}
    for step in sorted(range(-STEPS, STEPS + 1), key=abs):
        tried = ratio * REACH ** (step / STEPS)
        numbers = [group.scaled(tried) for group in alike]
        reached = sum(map(mul, numbers, alike.values())) / total
        spread.setdefault(tuple(numbers), (abs(step), abs(reached / ratio - 1), tried))
    nearest = sorted(spread.values(), key=lambda entry: entry[:2])[:most]
    return [{group.path: group.scaled(tried) for group in groups} for *_, tried in nearest]


def moved_references(model: Model, depths: Depths) -> Iterator[tuple[str, int]]:
    """(path, new layer) of each field that names an earlier layer whose keys and values it reads.

    A layer of the reader's own group is as far from the group's start as before, one of an earlier group as
    far from its end; where that group has become too short, the nearest at the same place of its pattern.
    """
    for stem, stack in stacks(model):
        spans = list(_spans(stem, stack.groups, depths))
        for path, value in settings(stack):
            if path.rsplit(".", 1)[-1] in READS_LAYER and value is not None:
                lender = next(i for i, (old, _) in enumerate(spans) if value in old)
                old, new = spans[lender]
                is_own = path.startswith(f"groups.{lender}.")
                moved = value + (new.start - old.start if is_own else new.stop - old.stop)
                period = len(stack.groups[lender].blocks)
                alike = new[(value - old.start) % period :: period]
                yield f"{stem}{path}", min(max(moved, alike[0]), alike[-1])


def _spans(stem: str, groups: tuple[Group, ...], depths: Depths) -> Iterator[tuple[range, range]]:
    """The layers of each group, before and after."""
    old = new = 0
    for i, group in enumerate(groups):
        now = depths[f"{stem}groups.{i}.n_layers"]
        yield range(old, old + group.n_layers), range(new, new + now)
        old, new = old + group.n_layers, new + now
