"""Evidence: where a value lies among the models that come with archcli. Plain arithmetic on the presets' index; reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archcli.modules import Model

NEAREST = 3
COLUMNS = ("active_share", "aspect_ratio", "d_ff_ratio", "head_ratio", "vocab_size")
"""What rules compare: facets of `archcli survey`."""

Index = Sequence[Mapping[str, Any]]
"""A record for each preset: its `name`, when it was `released`, and the value of each column."""


class Neighbour(NamedTuple):
    """A model whose value is near: its name, the year it was released (0 unknown), and the value."""

    name: str
    year: int
    value: float

    def words(self) -> str:
        """gemma-2b (2024) 8."""
        return (
            f"{self.name} ({self.year}) {_short(self.value)}"
            if self.year
            else f"{self.name} {_short(self.value)}"
        )


class Standing(NamedTuple):
    """A value among others: the share of models below it (those equal counted half), of how many, and the nearest ones."""

    percentile: float
    models: int
    nearest: tuple[Neighbour, ...]

    def words(self) -> str:
        """For people: the percentile and the names."""
        return f"percentile {self.percentile:.0f} of {self.models} models; nearest {', '.join(each.words() for each in self.nearest)}"

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "percentile": self.percentile,
            "models": self.models,
            "nearest": [each._asdict() for each in self.nearest],
        }


def entry(name: str, model: Model) -> dict[str, Any]:
    """A model's record in the index: what its rules would judge and no more, so no width of experts and no heads of latents."""
    from archcli.measure.survey.columns import described

    facets = described(name, model)
    spared = {
        "d_ff_ratio": facets["n_experts"] is not None,
        "head_ratio": "mla" in (facets["attention"] or ""),
    }
    return {
        "name": name,
        "released": facets["released"],
        **{column: None if spared.get(column) else facets[column] for column in COLUMNS},
    }


def standing(index: Index, column: str, value: float, own: str = "") -> Standing | None:
    """Where the value lies in a column, its own model left out; None where the column is of no use.

    Near is near in ratio: 4 is as far from 2 as from 8.
    """
    known = _known(index, column, own)
    if not known or value <= 0:
        return None
    below = sum(1.0 if each.value < value else 0.5 if each.value == value else 0.0 for each in known)
    near = sorted(
        known, key=lambda each: (max(each.value / value, value / each.value), -each.year, each.name)
    )[:NEAREST]
    return Standing(100 * below / len(known), len(known), tuple(near))


def spread(index: Index, column: str) -> str:
    """How a column spreads over the presets: least, median and most, with names."""
    known = sorted(_known(index, column), key=lambda each: (each.value, each.name))
    if not known:
        return ""
    from statistics import median

    middle = _short(median(each.value for each in known))
    return f"{column} of {len(known)} models: least {known[0].words()}, median {middle}, most {known[-1].words()}"


def _known(index: Index, column: str, own: str = "") -> list[Neighbour]:
    records = (each for each in index if each.get(column) and each["name"] != own)
    return [
        Neighbour(each["name"], int(str(each.get("released") or 0)[:4]), each[column]) for each in records
    ]


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
