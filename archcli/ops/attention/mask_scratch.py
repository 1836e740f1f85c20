"""What torch holds while it works out which keys each query sees: a mask's own rule, run on sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from archcli.arith import Number, Shape, is_one, prod
from archcli.graph.kept import BOOL, INT64
from archcli.ops.attention.mask import Mask
from archcli.ops.base import Scratch, ScratchTensor


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Positions, or truths about them, of so many queries and keys, as a mask's rule handles them."""

    scratch: Scratch
    queries: Number
    keys: Number
    tensor: ScratchTensor | None = None

    def joined(self, other: Any, width: int) -> Places:
        """A new tensor of this one and another, or a number, broadcast."""
        queries, keys = self.queries, self.keys
        if isinstance(other, Places):
            queries = other.queries if is_one(queries) else queries
            keys = other.keys if is_one(keys) else keys
        return Places(self.scratch, queries, keys, self.scratch.new(queries * keys, width))

    def _number(self, other: Any) -> Any:
        return self.joined(other, INT64)

    def _truth(self, other: Any) -> Any:
        return self.joined(other, BOOL)

    __sub__ = __mod__ = __floordiv__ = _number
    __le__ = __lt__ = __ge__ = __gt__ = __and__ = __or__ = _truth
    __eq__ = _truth
    __hash__ = object.__hash__


def key_positions(scratch: Scratch, visible: Number) -> ScratchTensor:
    """Positions of the visible keys: an offset for all, added to a count."""
    offset = scratch.new(1, INT64)
    counted = scratch.new(visible, INT64)
    keys = scratch.new(visible, INT64)
    del offset, counted
    return keys


def visibility(scratch: Scratch, mask: Mask, queries: Number, visible: Number) -> ScratchTensor:
    """Whether each query sees each key."""
    keys = Places(scratch, 1, visible, key_positions(scratch, visible))
    allowed: Any = mask.allows(Places(scratch, queries, 1), keys).tensor
    return cast("ScratchTensor", allowed)


def visible_selected(scratch: Scratch, allowed: ScratchTensor, selected: Shape, visible: Number) -> Any:
    """The same for the keys that are selected for each query [B, T, k]."""
    pairs = prod(selected[:2]) * visible
    empty = scratch.new(pairs, BOOL)
    ones = scratch.new(prod(selected), BOOL)
    chosen = scratch.new(pairs, BOOL)
    del empty, ones
    both = scratch.new(pairs, BOOL)
    del chosen, allowed
    return both
