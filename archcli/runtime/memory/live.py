"""Live: the storages that exist at once while torch runs, and the operation at which they are most.

A dispatch mode books every storage that an operator of torch returns, and a finalizer takes it off as soon
as nothing refers to it: what an allocator would hand out, without its rounding and its caches, and without
the workspace that a kernel takes within itself.

Traps: a storage's address is used again once it is freed, so that its booking must end with it (the finalizer
is of the storage, which lives as long as any view). What the caller holds stays live: results are returned as
numbers alone. Python frees at once what no cycle holds; the garbage collector is not waited for, as models
built here make no cycles around tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.runtime.memory.storages import address, tensors_in

Place = Callable[[], tuple[str, str]]
"""The path of the operation that runs, and the moment: forward, backward, loss, …"""


class LivePeak(NamedTuple):
    """The most bytes that were live at once, and where: the moment, and the operation's path or "".

    `end` is what was live when the pass had ended.
    """

    bytes: int
    moment: str
    path: str
    end: int


class LiveStorages(TorchDispatchMode):
    """Books live storages within the block, except the `given` ones: weights, buffers and inputs."""

    def __init__(self, given: Iterable[torch.Tensor] = (), place: Place = lambda: ("", "")) -> None:
        super().__init__()
        self._given = {address(tensor): tensor.untyped_storage() for tensor in given}
        self._live: dict[int, int] = {}
        self._place = place
        self.now = 0
        self._peak, self._at = 0, ("", "")

    def reset(self) -> None:
        """Begin the peak anew, with what is live now."""
        self._peak, self._at = self.now, self._place()

    @property
    def peak(self) -> LivePeak:
        """The peak since the last reset."""
        path, moment = self._at
        return LivePeak(self._peak, moment, path, self.now)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self._book(tensor)
        return out

    def _book(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._given or key in self._live:
            return
        self._live[key] = storage.nbytes()
        self.now += self._live[key]
        weakref.finalize(storage, self._free, key).atexit = False
        if self.now > self._peak:
            self._peak, self._at = self.now, self._place()

    def _free(self, key: int) -> None:
        self.now -= self._live.pop(key)
