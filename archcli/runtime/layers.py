"""Layers: counting traces each distinct layer once, a built model has all of them. Which stand for which, by path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archcli.modules import Model
from archcli.modules.model import stacks
from archcli.modules.stack import Stack

_LAYER = re.compile(r"^((?:\w+\.)?layers\.)(\d+)(.*)")


class Layers:
    """Paths of counted rows to paths in the built model, and back.

    Layer i of a group with a pattern of p stands for the group's layers i, i+p, i+2p, …
    """

    def __init__(self, spec: Model) -> None:
        self._counted = {f"{stem}layers.": tuple(_stand_ins(stack)) for stem, stack in stacks(spec)}
        self._built: dict[tuple[str, int], list[int]] = {}
        for stem, counted in self._counted.items():
            for i, layer in enumerate(counted):
                self._built.setdefault((stem, layer), []).append(i)

    def built(self, path: str) -> list[str]:
        """Every place in the built model that a counted path stands for."""
        stem, index, rest = self._split(path)
        if index < 0:
            return [path]
        return [f"{stem}{i}{rest}" for i in self._built.get((stem, index), [])]

    def counted(self, path: str) -> str:
        """The counted path that stands for a place in the built model."""
        stem, index, rest = self._split(path)
        known = 0 <= index < len(self._counted.get(stem, ()))
        return f"{stem}{self._counted[stem][index]}{rest}" if known else path

    def _split(self, path: str) -> tuple[str, int, str]:
        """The path up to a layer's index, the index, and what follows; -1 where it lies in no layer."""
        found = _LAYER.match(path)
        return (found[1], int(found[2]), found[3]) if found and found[1] in self._counted else ("", -1, path)


def _stand_ins(stack: Stack) -> Iterator[int]:
    """For each layer of a stack the one that is counted for it."""
    start = 0
    for group in stack.groups:
        yield from (start + i % len(group.blocks) for i in range(group.n_layers))
        start += group.n_layers
