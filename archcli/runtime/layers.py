"""Layers: counting traces each distinct layer once, a built model has all of them. Which stand for which, by path."""

from __future__ import annotations

import re

from archcli.modules import Decoder

_LAYER = re.compile(r"^layers\.(\d+)")


class Layers:
    """Paths of counted rows to paths in the built model, and back.

    Layer i of a group with a pattern of p stands for the group's layers i, i+p, i+2p, …
    """

    def __init__(self, spec: Decoder) -> None:
        self._counted: list[int] = []
        for group in spec.groups:
            start, period = len(self._counted), len(group.blocks)
            self._counted += [start + i % period for i in range(group.n_layers)]
        self._built: dict[int, list[int]] = {}
        for built, counted in enumerate(self._counted):
            self._built.setdefault(counted, []).append(built)

    def built(self, path: str) -> list[str]:
        """Every place in the built model that a counted path stands for."""
        found = _LAYER.match(path)
        if found is None:
            return [path]
        return [f"layers.{i}{path[found.end() :]}" for i in self._built.get(int(found[1]), [])]

    def counted(self, path: str) -> str:
        """The counted path that stands for a place in the built model."""
        found = _LAYER.match(path)
        if found is None or int(found[1]) >= len(self._counted):
            return path
        return f"layers.{self._counted[int(found[1])]}{path[found.end() :]}"
