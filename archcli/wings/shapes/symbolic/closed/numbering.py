"""Numbering: the numbers of the layers that a row of show stands for, as their groups grow or shrink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from archcli.modules.models.stack import stacks
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.addresses import Address, Entry
from archcli.wings.shapes.symbolic.closed.free import FreeModel


class NumberedGroup(NamedTuple):
    """The layers of a group: the first number, how many, and the same in symbols; the pattern's length."""

    first: int
    layers: int
    first_form: Any
    layers_form: Any
    period: int

    def number(self, layer: int) -> Any:
        """The number of a layer: from the start of the group, and in its last pattern from its end."""
        offset = layer - self.first
        from_end = self.layers - offset
        is_last = offset >= self.period and from_end <= self.period
        return self.first_form + (self.layers_form - from_end if is_last else offset)


def layer_numbers(free: FreeModel, rows: Sequence[Mapping[str, Any]]) -> Iterator[Entry]:
    """The numbers at the ends of runs of layers, of the first row of each layer: what a title names."""
    known = {prefix: [*_groups(free, prefix)] for prefix, _ in stacks(free.numeric)}
    seen = set()
    for row in rows:
        prefix, _, rest = row["path"].partition("layers.")
        layer = prefix, rest.partition(".")[0]
        if row["layers"] is None or layer in seen or prefix not in known:
            continue
        seen.add(layer)
        for place in _ends(row["layers"]):
            number = row["layers"][place]
            group = next(it for it in known[prefix] if it.first <= number < it.first + it.layers)
            yield Address("show", row["id"], f"layers.{place}"), group.number(number)


def _groups(free: FreeModel, prefix: str) -> Iterator[NumberedGroup]:
    """The groups of a stack with the numbers of their first layers."""
    first, first_form = 0, required("sympy").Integer(0)
    groups = (dict(stacks(model))[prefix].groups for model in (free.numeric, free.symbolic))
    for group, form in zip(*groups, strict=True):
        yield NumberedGroup(first, group.n_layers, first_form, form.n_layers, len(group.blocks))
        first, first_form = first + group.n_layers, first_form + form.n_layers


def _ends(numbers: Sequence[int]) -> Iterator[int]:
    """The places of numbers that begin or end a run of neighbours."""
    breaks = [i for i, (before, number) in enumerate(pairwise(numbers), 1) if number != before + 1]
    yield from sorted({0, len(numbers) - 1, *breaks, *(i - 1 for i in breaks)})
