"""Records of an extrapolation's plan: small stacks, pairs of them, and their memory limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from archcli.measure.passes import Pass
from archcli.measure.profile.extrapolate.kinds import LayerKind
from archcli.modules import Model


class MemoryLimits(NamedTuple):
    """How stacks are counted, what they need, and how much memory and cache there is.

    `memory` are the bytes that the pass of a model needs. `available` bytes are None where nobody knows.
    """

    trace: Callable[[Model], Pass]
    memory: Callable[[Model], dict[str, int]]
    dtype: str
    available: int | None
    cache: int

    def fits(self, stack: SmallStack) -> bool:
        """Whether a stack can be run."""
        return self.available is None or stack.needed <= self.available


@dataclass(frozen=True, slots=True)
class SmallStack:
    """A model of a few layers that is measured: its counted pass, and the memory that it needs.

    Only `distinct` of its `experts` have memory, where that is set: expert i shares that of i - distinct.
    """

    name: str
    model: Model
    counted: Pass
    memory: dict[str, int]
    experts: int | None = None
    distinct: int | None = None

    @property
    def needed(self) -> int:
        """Bytes."""
        return self.memory["needed_bytes"]


@dataclass(frozen=True, slots=True)
class StackPair:
    """Two stacks of a kind of layer: of `n_layers`, and of one more."""

    kind: LayerKind
    fewer: SmallStack
    more: SmallStack
    n_layers: int


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The stacks to measure: embedding and head with few layers, and a pair for each kind that runs.

    `held` are the paths of kinds of which `ends` has one layer, where a stack cannot be empty.
    `weights_bytes` are those of the whole model, `cache_bytes` the caches. `reason` says why the model itself
    is not measured, where that was not asked for.
    """

    ends: SmallStack
    held: frozenset[str]
    pairs: tuple[StackPair, ...]
    weights_bytes: int
    cache_bytes: int
    reason: str = ""

    def stacks(self) -> Iterator[SmallStack]:
        """Every stack once."""
        by_name = {stack.name: stack for pair in self.pairs for stack in (pair.fewer, pair.more)}
        yield from (self.ends, *by_name.values())
