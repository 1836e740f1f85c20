"""Storages: who made one, and how many bytes it has.

A tensor is known by its storage, which its views share. `_cdata` is the storage's address: unique while the
storage lives, and used again afterwards. So whoever compares storages holds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type
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


def stored_in(tree: Any) -> list[torch.Tensor]:
    """The tensors in nested collections that have storages: of a sparse or a wrapping one its parts."""
    return [part for tensor in tensors_in(tree) for part in _parts(tensor)]


def _parts(tensor: Any) -> list[torch.Tensor]:
    if is_traceable_wrapper_subclass(tensor):
        return [part for name in tensor.__tensor_flatten__()[0] for part in _parts(getattr(tensor, name))]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def is_of_wrappers(types: Iterable[type]) -> bool:
    """Whether an operation is called on tensors that wrap others, as nested ones do."""
    return any(is_traceable_wrapper_subclass_type(kind) for kind in types if kind is not FakeTensor)


class StorageLedger:
    """Storages by address, each with the operation during which it first appeared.

    `excepted` are those of weights, buffers and the pass's inputs.
    """

    def __init__(self, excepted: Iterable[torch.Tensor]) -> None:
        self._excepted = {address(tensor): tensor.untyped_storage() for tensor in excepted}
        self._seen: dict[int, Seen] = {}

    def is_given(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in a weight, a buffer or an input of the pass."""
        return address(tensor) in self._excepted

    def enter(self, tensors: Iterable[torch.Tensor], maker: str) -> None:
        """Book the storages that were not seen before as made by the operation at the path."""
        for tensor in tensors:
            self._seen.setdefault(address(tensor), Seen(tensor.untyped_storage(), maker))

    def of(self, tensor: torch.Tensor) -> Seen:
        """The storage of a tensor that was entered."""
        return self._seen[address(tensor)]
