"""Evidence: where a value lies among the presets. Plain arithmetic on their index; reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archcli.modules import Model

# presets that a finding names as the nearest
NEAREST = 3
COLUMNS = ("active_share", "aspect_ratio", "attention_share", "d_ff_ratio", "head_ratio", "vocab_size")
"""Columns of `archcli survey` that rules compare."""

Index = Sequence[Mapping[str, Any]]
"""Records of the presets: `name`, `released`, and the value of every column."""


class Neighbour(NamedTuple):
    """A preset with a similar value: its name, the year of its release (0 unknown), and the value."""

    name: str
    year: int
    value: float

    def text(self) -> str:
        """As text: `gemma-2b (2024) 8`."""
        name = f"{self.name} ({self.year})" if self.year else self.name
        return f"{name} {_format_value(self.value)}"


class Standing(NamedTuple):
    """The rank of a value: its percentile, among how many models, and the nearest of them.

    Models of an equal value count as half below it.
    """

    percentile: float
    models: int
    nearest: tuple[Neighbour, ...]

    def text(self) -> str:
        """As text: the percentile and the nearest models."""
        nearest = ", ".join(model.text() for model in self.nearest)
        return f"percentile {self.percentile:.0f} of {self.models} models; nearest {nearest}"

    def record(self) -> dict[str, Any]:
        """As a JSON record."""
        return {
            "percentile": self.percentile,
            "models": self.models,
            "nearest": [model._asdict() for model in self.nearest],
        }


def entry(name: str, model: Model) -> dict[str, Any]:
    """A model's record in the index: that of a survey, and under `judged` the columns that rules read.

    There d_ff_ratio is None of a mixture of experts, and head_ratio of latent attention: no rule judges them.
    """
    from archcli.measure.survey.columns import describe

    columns = describe(name, model)
    is_spared = {
        "d_ff_ratio": columns["n_experts"] is not None,
        "head_ratio": "mla" in (columns["attention"] or ""),
    }
    judged = {column: None if is_spared.get(column) else columns[column] for column in COLUMNS}
    return {**columns, "sibling_of": model.sibling_of, "judged": judged}


def standing(index: Index, column: str, value: float, excluded: str = "") -> Standing | None:
    """Where a value lies in a column of the index; None where the column has no values to compare with.

    The preset named `excluded` is left out. Distance is a ratio: 4 is as far from 2 as from 8.
    """
    models = _neighbours(index, column, excluded)
    if not models or value <= 0:
        return None
    below = sum(model.value < value for model in models)
    equal = sum(model.value == value for model in models)

    def distance(model: Neighbour) -> tuple[float, int, str]:
        # of equally near ones the newest first; names make the order the same in every run
        return max(model.value / value, value / model.value), -model.year, model.name

    nearest = sorted(models, key=distance)[:NEAREST]
    return Standing(100 * (below + equal / 2) / len(models), len(models), tuple(nearest))


def spread(index: Index, column: str) -> str:
    """The least, median and largest value of a column, with the presets that have them."""
    models = sorted(_neighbours(index, column), key=lambda model: (model.value, model.name))
    if not models:
        return ""
    from statistics import median

    least, middle, most = models[0], _format_value(median(model.value for model in models)), models[-1]
    return f"{column} of {len(models)} models: least {least.text()}, median {middle}, most {most.text()}"


def _neighbours(index: Index, column: str, excluded: str = "") -> list[Neighbour]:
    """The presets that have a value in the column."""
    records = [record for record in index if record.get(column) and record["name"] != excluded]
    return [Neighbour(record["name"], _year(record), record[column]) for record in records]


def _year(record: Mapping[str, Any]) -> int:
    return int(str(record.get("released") or 0)[:4])


def _format_value(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
