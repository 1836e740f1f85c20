"""Layers: counting traces each distinct layer once, a built model has all of them. Which stand for which, by path."""

from __future__ import annotations

import re

from archcli.modules import Model
from archcli.modules.model import stacks
from archcli.modules.outline import counted_layers

_LAYER = re.compile(r"^((?:\w+\.)?layers\.)(\d+)(.*)")


class Layers:
    """Paths of counted rows to paths in the built model, and back.

    Layer i of a group with a pattern of p stands for the group's layers i, i+p, i+2p, … (`counted_layers`).
    """

    def __init__(self, spec: Model) -> None:
        found = [(*_parted(path), layers) for path, layers in counted_layers(spec, stacks(spec))]
        self._built = {(stem, counted): list(layers) for stem, counted, layers in found}
        self._counted = {(stem, layer): counted for stem, counted, layers in found for layer in layers}

    def built(self, path: str) -> list[str]:
        """Every place in the built model that a counted path stands for."""
        stem, index, rest = self._split(path)
        if index < 0:
            return [path]
        return [f"{stem}{layer}{rest}" for layer in self._built.get((stem, index), [])]

    def counted(self, path: str) -> str:
        """The counted path that stands for a place in the built model."""
        stem, index, rest = self._split(path)
        return path if index < 0 else f"{stem}{self._counted[stem, index]}{rest}"

    def _split(self, path: str) -> tuple[str, int, str]:
        """The path up to a layer's index, the index, and what follows; -1 where it lies in no layer."""
        found = _LAYER.match(path)
        return (
            (found[1], int(found[2]), found[3])
            if found and (found[1], int(found[2])) in self._counted
            else ("", -1, path)
        )


def _parted(path: str) -> tuple[str, int]:
    stem, _, index = path.rpartition(".")
    return f"{stem}.", int(index)
