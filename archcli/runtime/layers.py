"""Layers: counting traces each distinct layer once, a built model has all of them. Which stand for which, by path."""

from __future__ import annotations

import re

from archcli.modules import Decoder
from archcli.modules.model import stacks
from archcli.modules.outline import counted_layers

_LAYER = re.compile(r"^layers\.(\d+)")


class Layers:
    """Paths of counted rows to paths in the built model, and back.

    Layer i of a group with a pattern of p stands for the group's layers i, i+p, i+2p, … (`counted_layers`).
    """

    def __init__(self, spec: Decoder) -> None:
        self._built = {int(path.removeprefix("layers.")): list(layers) for path, layers in counted_layers(spec, stacks(spec))}
        self._counted = {layer: counted for counted, layers in self._built.items() for layer in layers}

    def built(self, path: str) -> list[str]:
        """Every place in the built model that a counted path stands for."""
        found = _LAYER.match(path)
        if found is None:
            return [path]
        return [f"layers.{i}{path[found.end() :]}" for i in self._built.get(int(found[1]), [])]

    def counted(self, path: str) -> str:
        """The counted path that stands for a place in the built model."""
        found = _LAYER.match(path)
        if found is None or int(found[1]) not in self._counted:
            return path
        return f"layers.{self._counted[int(found[1])]}{path[found.end() :]}"
