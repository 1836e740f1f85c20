"""Evidence: where a value lies among the models that come with archcli. Plain arithmetic on the presets' index; reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NEAREST = 3

Index = Sequence[Mapping[str, Any]]
"""A record for each preset: its `name`, when it was `released`, and the value of each column."""


class Standing(NamedTuple):
    """A value among others: the share of models below it (those equal counted half), of how many, and the nearest ones."""

    percentile: float
    models: int
    nearest: tuple[tuple[str, float], ...]

    def words(self) -> str:
        """For people: the percentile and the names."""
        names = ", ".join(f"{name} {value:.4g}" for name, value in self.nearest)
        return f"percentile {self.percentile:.0f} of {self.models} models; nearest {names}"


def standing(index: Index, column: str, value: float, own: str = "") -> Standing | None:
    """Where the value lies in a column, its own model left out; None where the column is of no use.

    Near is near in ratio: 4 is as far from 2 as from 8.
    """
    known = [(each["name"], each["released"], each[column]) for each in index if each.get(column) and each["name"] != own]
    if not known or value <= 0:
        return None
    below = sum(1.0 if other < value else 0.5 if other == value else 0.0 for *_, other in known)
    near = sorted(known, key=lambda each: (max(each[2] / value, value / each[2]), each[0]))[:NEAREST]
    named = tuple((f"{name} ({str(released)[:4]})" if released else name, other) for name, released, other in near)
    return Standing(100 * below / len(known), len(known), named)
