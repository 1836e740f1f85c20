"""Adapted: a module whose forward runs on another tape, such as one that adds adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.graph import Tape, Tensor, tree_map
from archcli.modules.spec.base import Module


class Adapted:
    """A module whose forward runs on another tape: `around` wraps the tape of its caller."""

    __slots__ = ("around", "module")

    def __init__(self, module: Module, around: Callable[[Tape], Tape]) -> None:
        self.module, self.around = module, around

    @property
    def group(self) -> str:
        """The group of the wrapped module."""
        return self.module.group

    def forward(self, *args: Any, **options: Any) -> Any:
        """The module's forward on the other tape. Results stay on the tape that was given."""
        # tensors of one tape go to one new tape: an AdapterTape keeps A x for the next projection
        tapes: dict[int, Tape] = {}

        def moved(x: Tensor) -> Tensor:
            if id(x.tape) not in tapes:
                tapes[id(x.tape)] = self.around(x.tape)
            return Tensor(tapes[id(x.tape)], x.value)

        args, options = tree_map(moved, Tensor, (args, options))
        return self.module.forward(*args, **options)


def unadapted(module: Any) -> Any:
    """The module without its adapters."""
    return module.module if isinstance(module, Adapted) else module


def on_tape(tape: Tape, tree: Any) -> Any:
    """The tree with its tensors on another tape."""
    return tree_map(lambda x: Tensor(tape, x.value), Tensor, tree)
