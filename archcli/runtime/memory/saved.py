"""Saved: a recorder of the tensors that autograd saves, by operation of the architecture.

It listens through `torch.autograd.graph.saved_tensors_hooks`, which torch calls with each tensor that a
node of its graph saves. What makes its figures exact:

- a storage counts once and whole, whichever views of it are saved and however many nodes save them;
- weights, buffers, ids and targets are there anyway, and are left out;
- tensors of no axes are constants of an expression (8 bytes at most), and are left out;
- a node saves its output before the operation has returned it, so that operations are judged at their end;
- no dispatch mode is active: under one, some composite operations of torch take other ways
  (`areAnyTensorSubclassLike` holds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from archcli.graph import Op
from archcli.runtime.memory.storages import StorageLedger, address, tensors_in

OUTSIDE = ""
"""The path of what no operation of the architecture does: the loss outside of the model."""


@dataclass(frozen=True, slots=True)
class SavedByOp:
    """A storage that the nodes of one operation save.

    `role` is "in" or "out", with the `index` of the input or output whose storage it is (the first one, where
    several share it), "new" for one that the operation made for its backward alone, "other" for one that
    reached it in another way, made by the operation at `maker`.
    """

    role: str
    index: int
    bytes: int
    maker: str

    def __str__(self) -> str:
        if self.role in {"in", "out"}:
            return f"{self.role.title()}({self.index})"
        return f"New({self.bytes})" if self.role == "new" else f"Other({self.bytes} of {self.maker})"


@dataclass(frozen=True)
class KeptStorage:
    """One kept storage: its bytes, the path of the operation that made it, and those that keep it."""

    bytes: int
    maker: str
    keepers: tuple[str, ...]


@dataclass(frozen=True)
class KeptStorages:
    """All that autograd keeps of a forward: `storages`, each once, and what each operation saves by path."""

    storages: tuple[KeptStorage, ...]
    by_op: dict[str, tuple[SavedByOp, ...]]

    @property
    def bytes(self) -> int:
        """Bytes of all storages."""
        return sum(storage.bytes for storage in self.storages)

    def made(self) -> dict[str, int]:
        """Kept bytes by the path of the operation that made them."""
        made: dict[str, int] = {}
        for storage in self.storages:
            made[storage.maker] = made.get(storage.maker, 0) + storage.bytes
        return made


@dataclass
class _Running:
    """The operation that runs: its inputs, its outputs once it returned, and what its nodes saved."""

    path: str
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor] = ()
    saved: list[torch.Tensor] = field(default_factory=list)


class KeptRecorder:
    """Records what autograd saves within the block, by operation of an observed model.

    `given` are the tensors that are not counted. It holds every storage that it sees: on a CPU with real
    tensors nothing of the forward is freed until it is dropped.
    """

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        self._ledger = StorageLedger(given)
        self._keepers: dict[int, tuple[torch.Tensor, dict[str, None]]] = {}
        self._by_op: dict[str, dict[int, SavedByOp]] = {}
        self._op = _Running(OUTSIDE, ())
        self._hooks: Any = None

    def __enter__(self) -> Self:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._saved, _unchanged)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.__exit__(*exception)

    def began(self, path: str, op: Op, inputs: Sequence[Any]) -> None:
        """An operation begins; what nobody was seen to make before came from outside."""
        self._settle()
        tensors = tensors_in(inputs)
        self._ledger.enter(tensors, OUTSIDE)
        self._op = _Running(path, tensors)

    def returned(self, path: str, op: Op, outputs: Any) -> None:
        """An operation returned: what is new of it is its own."""
        self._op.outputs = tensors_in(outputs)
        self._ledger.enter(self._op.outputs, path)

    def ended(self, path: str) -> None:
        """An operation ended; what is saved from here on is not its doing."""
        self._settle()

    def kept(self) -> KeptStorages:
        """All that was saved so far."""
        self._settle()
        storages = [
            KeptStorage(tensor.untyped_storage().nbytes(), self._ledger.of(tensor).maker, tuple(keepers))
            for tensor, keepers in self._keepers.values()
        ]
        by_op = {path: tuple(saved.values()) for path, saved in self._by_op.items()}
        return KeptStorages(tuple(storages), by_op)

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """A node saves a tensor."""
        if tensor.ndim and not self._ledger.is_given(tensor):
            self._op.saved.append(tensor)
        return tensor

    def _settle(self) -> None:
        """Book what the running operation's nodes saved."""
        running, self._op = self._op, _Running(OUTSIDE, ())
        for tensor in running.saved:
            self._ledger.enter([tensor], running.path)
            _, keepers = self._keepers.setdefault(address(tensor), (tensor, {}))
            keepers[running.path] = None
            saved = self._by_op.setdefault(running.path, {})
            saved.setdefault(address(tensor), self._role(running, tensor))

    def _role(self, running: _Running, tensor: torch.Tensor) -> SavedByOp:
        """What a saved tensor is to the operation that saves it."""
        storage, maker = self._ledger.of(tensor)
        for role, tensors in (("in", running.inputs), ("out", running.outputs)):
            for i, other in enumerate(tensors):
                if address(other) == storage._cdata:
                    return SavedByOp(role, i, storage.nbytes(), maker)
        return SavedByOp("new" if maker == running.path else "other", 0, storage.nbytes(), maker)


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
