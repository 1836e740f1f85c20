"""Storages: who made one, and how many bytes it has.

A tensor is known by its storage, which its views share. `_cdata` is the storage's address: unique while the
storage lives, and used again afterwards. So whoever compares storages holds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves


class Seen(NamedTuple):
    """A storage, held so that no other takes its address, and the path of the operation that made it."""

    storage: torch.UntypedStorage
    maker: str


def address(tensor: torch.Tensor) -> int:
    """The address of the tensor's storage."""
    return tensor.untyped_storage()._cdata


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class StorageLedger:
    """Storages by address, each with the operation during which it first appeared.

    `given` are those of weights, buffers and the pass's inputs.
    """

    def __init__(self, given: Iterable[torch.Tensor]) -> None:
        self._given = {address(tensor): tensor.untyped_storage() for tensor in given}
        self._seen: dict[int, Seen] = {}

    def is_given(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in a weight, a buffer or an input of the pass."""
        return address(tensor) in self._given

    def enter(self, tensors: Iterable[torch.Tensor], maker: str) -> None:
        """Book the storages that were not seen before as made by the operation at the path."""
        for tensor in tensors:
            self._seen.setdefault(address(tensor), Seen(tensor.untyped_storage(), maker))

    def of(self, tensor: torch.Tensor) -> Seen:
        """The storage of a tensor that was entered."""
        return self._seen[address(tensor)]
