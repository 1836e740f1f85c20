"""Scheme: how a quantization_config stores the matrices of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.patterns import Patterns
from archcli.modules.stored.quantization import Packing

AS_IT_IS = Packing("dtype")
WORD_BITS = 32
"""What GPTQ and AWQ pack values into."""


class Scheme(NamedTuple):
    """Which matrices are packed, and how.

    `about` says so in a few words. Modules that `kept` names and groups of rows in `keeps` are left as they
    are, and all but those in `only` where it names any. Of `overrides` the first that names a module decides.
    `layers_only`: nothing outside of the layers is packed. `in_words`: the outputs of a matrix fill whole
    words of 32 bits, else it is left out. `tables`: the table of tokens is packed, too.
    """

    about: str
    packing: Packing
    kept: Patterns = Patterns()
    keeps: tuple[str, ...] = ("lm_head", "router")
    only: tuple[str, ...] = ()
    overrides: tuple[tuple[Patterns, Packing], ...] = ()
    layers_only: bool = False
    in_words: bool = False
    tables: bool = False

    @property
    def numbered(self) -> bool:
        """Whether it may store one layer otherwise than another."""
        return self.kept.numbered or any(patterns.numbered for patterns, _ in self.overrides)

    @property
    def unread(self) -> list[str]:
        """Patterns that are not understood."""
        return [*self.kept.unread, *(entry for patterns, _ in self.overrides for entry in patterns.unread)]

    def packing_of(self, group: str, names: Iterable[str], outputs: Any, *, in_layer: bool) -> Packing:
        """The format of a linear layer of a group of rows, whose module has these names."""
        names = list(names)
        if group in self.keeps or (self.only and group not in self.only):
            return AS_IT_IS
        if (self.layers_only and not in_layer) or any(map(self.kept.match, names)):
            return AS_IT_IS
        stated = (packing for patterns, packing in self.overrides if any(map(patterns.match, names)))
        packing = next(stated, self.packing)
        if self.in_words and isinstance(packing.bits, int) and outputs * packing.bits % WORD_BITS:
            return AS_IT_IS
        return packing


Reader = Callable[[Config], Scheme | None]
"""A quantization_config to its scheme; None where a setting of it is not known."""


def entries(config: Config, *names: str) -> list[object]:
    """The list at the first of these keys that is not null."""
    value = config.get(*names, default=[])
    if not isinstance(value, list):
        raise config.error(f"{names[0]} must be a list", at=config.place(*names))
    return value


def group_of(config: Config, *names: str, default: Any = 128) -> int | str:
    """The group size; -1, which means all of a row, as row."""
    stated = config.value(*names, default=default)
    return "row" if stated.value == -1 else config.size(*names, default=default).value


def grouped(group: int | str) -> str:
    """The groups of a format in words."""
    return f"in groups of {group}" if isinstance(group, int) else f"with a scale a {group}"


def block_size(value: Any) -> tuple[int, int] | None:
    """(rows, columns) of a block that shares a scale; None for anything else."""
    match value:
        case [int() as rows, int() as columns] if rows > 0 and columns > 0:
            return rows, columns
    return None
