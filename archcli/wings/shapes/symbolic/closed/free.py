"""FreeModel: a model with a symbol for every size, and the --set path of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from archcli.errors import ArchError
from archcli.modules import Model, substitute
from archcli.modules.models.stack import Group
from archcli.modules.spec.base import find
from archcli.wings.shapes.symbolic.symbols import (
    fields_named,
    size_names,
    size_values,
    sizes,
    symbol,
    without_idle_layers,
)


@dataclass(frozen=True, slots=True)
class FreeSize:
    """A size of a model that can be changed: its symbol, its value, the fields it stands for.

    `least` is the smallest value at which the closed forms hold; `keys` are those of --set.
    """

    name: str
    value: int
    paths: tuple[str, ...]
    keys: tuple[str, ...]
    least: int = 1

    def overrides(self, value: int) -> list[str]:
        """The texts of --set that give the size another value."""
        return [f"{key}={value}" for key in self.keys]

    def by_paths(self) -> FreeSize:
        """The same with the full paths of its fields as keys."""
        return replace(self, keys=self.paths)


@dataclass(frozen=True, slots=True)
class FreeModel:
    """A model in whole numbers, the same in symbols, and the settings that the symbols stand for.

    Unlike those of `ModelSymbols`, its formulas keep every rounding: they hold at all sizes, and not only at
    those that are even where the model's are.
    """

    numeric: Model
    symbolic: Model
    settings: tuple[FreeSize, ...]

    @property
    def values(self) -> dict[str, int]:
        """The values of the settings by name."""
        return {setting.name: setting.value for setting in self.settings}


MOST_DIFFERENT = 48
"""Layers of a pattern, beyond which their sizes stay numbers: each is loaded anew, with all the others."""


def different_layers(model: Model) -> int:
    """How many layers a model states: one for each layer of the pattern of each group."""
    return sum(len(group.blocks) for _, group in find(model, Group))


def free_model(model: Model) -> FreeModel:
    """The model with a symbol for every size, multi-token prediction included.

    Of very many different layers the sizes at the top alone are free, such as d_model and vocab_size.
    """
    model = without_idle_layers(model)
    values = size_values(model, predictions=True)
    names = _inherited(model, size_names(model, predictions=True), values)
    if different_layers(model) > MOST_DIFFERENT:
        top = {name for path, name in names.items() if "." not in path}
        names = {path: name for path, name in names.items() if name in top}
    placed = {path: symbol(name) for path, name in names.items()}
    paths: dict[str, list[str]] = {}
    for path, name in names.items():
        paths.setdefault(name, []).append(path)
    least = _least_layers(model)
    settings = tuple(
        FreeSize(
            name,
            values[field_paths[0]],
            tuple(field_paths),
            _keys(model, field_paths, names),
            max(least.get(path, 1) for path in field_paths),
        )
        for name, field_paths in paths.items()
    )
    return FreeModel(model, substitute(model, placed), settings)


def _least_layers(model: Model) -> Mapping[str, int]:
    """The fewest layers of each group: one of each layer of its pattern, which all have rows."""
    return {f"{path}.n_layers": len(group.blocks) for path, group in find(model, Group)}


def _inherited(model: Model, names: Mapping[str, str], values: Mapping[str, int]) -> dict[str, str]:
    """The names; a field that inherits a value of the top level has the name of that value."""
    heirs = dict(names)
    for path, spec, value in sizes(model):
        above = spec.fields[path.rpartition(".")[2]].inherits
        if path in names and above in names and values[above] == value:
            heirs[path] = names[above]
    return heirs


def _keys(model: Model, paths: list[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """The shortest keys of --set that mean these fields and no others of another symbol."""
    meant, steps = set(paths), paths[0].split(".")
    for start in reversed(range(len(steps))):
        if not steps[start].isdecimal():
            end = ".".join(steps[start:])
            matched = _matched(model, end)
            # fields that no formula contains, such as those of RoPE scaling, may change with them
            if meant <= matched and all(path in meant or path not in names for path in matched):
                return (end,)
    return tuple(paths)


def _matched(model: Model, end: str) -> set[str]:
    """The sizes that a key of --set means; none where it is ambiguous."""
    try:
        return set(fields_named(model, end))
    except ArchError:
        return set()
