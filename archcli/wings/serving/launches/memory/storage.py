"""Storages of a traced pass, and the ledger of those that are alive.

A storage is alive while a Python object refers to it. The counted forward is the code that also runs with
torch, so its local variables hold storages equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import ref

from archcli.arith import Number
from archcli.graph.part import Workspace
from archcli.graph.row import Row


# eq=False: two storages with equal fields are different ones
@dataclass(slots=True, eq=False)
class Allocation:
    """The record of a storage: its bytes, the number of layers with one like it, its row.

    pieces: of a loop that was run once for several steps, the storages that it stands for.
    """

    size: Number
    times: Number
    path: str
    pieces: Number = 1


class LiveStorage:
    """A live storage; the ledger frees it with its last reference."""

    # with slots, weak references, as regions hold them, need __weakref__
    __slots__ = ("__weakref__", "count", "is_cache", "ledger", "record")

    def __init__(self, record: Allocation, ledger: Ledger) -> None:
        self.record, self.ledger, self.count, self.is_cache = record, ledger, 0, False
        self._count(1)

    def repeat(self) -> None:
        """Count it for every layer that it stands for, as each keeps its own."""
        self._count(self.record.times)

    def cached(self) -> None:
        """Count it as part of the cache."""
        if not self.is_cache:
            self.is_cache = True
            self.ledger.cache = self.ledger.cache + self.count * self.record.size

    def _count(self, count: Number) -> None:
        if not self.ledger.follows:
            return
        more = (count - self.count) * self.record.size
        self.count = count
        self.ledger.live = self.ledger.live + more
        if self.is_cache:
            self.ledger.cache = self.ledger.cache + more

    def __del__(self) -> None:
        # CPython calls this at once with the last reference, as torch frees a tensor
        self._count(0)


class Moment(NamedTuple):
    """Bytes alive while an operation runs: kept by autograd so far, cached, and all others."""

    path: str
    kept: Number
    temporaries: Number
    cache: Number = 0


class Value(NamedTuple):
    """A tensor as an edge: its source (number of a step, or path of a weight), output index, bytes."""

    maker: int | str
    output: int
    size: Number


@dataclass(slots=True, eq=False)
class Step:
    """One operation of a pass: the sources of its inputs, its outputs, and inputs of its backward."""

    row: Row
    inputs: tuple[Value | None, ...]
    """Inputs that get a gradient; None in place of any other."""
    outputs: tuple[Value, ...]
    kept: tuple[Allocation, ...]
    weight_gradients: Number
    """Bytes of the gradients of its own weights."""
    workspace: Workspace
    region: str | None
    """The path of its recomputed module; None outside of one."""
    alive_again: Number
    """Bytes alive of the recomputed module while the operation runs again."""
    hands_on: bool
    """Whether its inputs get the gradient of its output unchanged, as in an addition."""
    summed_bias: Number
    """Bytes of a bias whose gradient is summed up after the others; 0 without one."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Rules for activation recomputation: modules and operations computed again, and exceptions in them.

    rules: whether a path is computed again. kept: whether an operation within keeps its results.
    offloads: whether what is kept for the backward lies in RAM.
    """

    rules: tuple[Callable[[str], bool], ...] = ()
    kept: tuple[Callable[[str], bool], ...] = ()
    offloads: bool = False

    def __call__(self, path: str) -> bool:
        """Whether the module or operation of a path is computed again."""
        return any(rule(path) for rule in self.rules)

    def keeps(self, path: str) -> bool:
        """Whether an operation within such a module keeps its results."""
        return any(rule(path) for rule in self.kept)


@dataclass(slots=True, eq=False)
class RecomputedRegion:
    """Storages of a recomputed module: alive in its local variables, or kept by its steps."""

    storages: list[ref[LiveStorage]] = field(default_factory=list)
    kept: dict[int, Allocation] = field(default_factory=dict)

    def alive(self, saved: Mapping[int, LiveStorage]) -> Number:
        """Bytes alive when the module runs again, at this operation, besides tensors saved by autograd."""
        # a tensor that a local holds and a step keeps is one storage: the dict has it once
        held = [storage.record for storage_of in self.storages if (storage := storage_of()) is not None]
        fresh = {id(a): a for a in held if id(a) not in saved}
        return sum(a.size for a in {**fresh, **self.kept}.values())


@dataclass(slots=True, eq=False)
class Ledger:
    """The storages of a pass: alive, kept by autograd, cached; and its moments and steps.

    live, kept, cache: bytes now.
    moments, steps: of the operations so far.
    saved: storages saved by autograd, by id.
    entries: inputs of each recomputed module, by its path.
    regions: recomputed modules by path.
    follows: False leaves moments and steps out.
    offloads: what is kept lies in RAM, and comes back for its backward (torch's `save_on_cpu`).
    """

    live: Number = 0
    kept: Number = 0
    cache: Number = 0
    moments: list[Moment] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    saved: dict[int, LiveStorage] = field(default_factory=dict)
    entries: dict[str, dict[int, Allocation]] = field(default_factory=dict)
    regions: dict[str, RecomputedRegion] = field(default_factory=dict)
    follows: bool = True
    offloads: bool = False

    @property
    def held(self) -> Number:
        """Bytes that are kept on the device so far."""
        return 0 if self.offloads else self.kept

    def keep(self, storage: LiveStorage) -> None:
        """Keep a storage for the backward, in every layer that it stands for."""
        if id(storage.record) not in self.saved:
            # what lies in RAM leaves the device with the last reference of the forward
            kept = LiveStorage(storage.record, RAM) if self.offloads else storage
            self.saved[id(storage.record)] = kept
            kept.repeat()
            if self.follows:
                self.kept = self.kept + storage.record.size * storage.record.times

    def region(self, path: str) -> RecomputedRegion:
        """The storages of the recomputed module at a path."""
        return self.regions.setdefault(path, RecomputedRegion())

    def note(self, path: str, running: Number) -> None:
        """Note the moment at which an operation runs."""
        if self.follows:
            others = self.live - self.held - self.cache + running
            self.moments.append(Moment(path, self.held, others, self.cache))


RAM = Ledger(follows=False)
"""Stands for the host, whose bytes no moment counts."""
