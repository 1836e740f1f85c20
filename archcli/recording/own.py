"""A run of a module of one's own, as plain data: rows, what was not counted, and the memory of a step.

`runtime` writes it from any nn.Module; `measure` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from archcli.arith import Shape
from archcli.graph import Op, Row


class PathModule(NamedTuple):
    """A module on the path to another: its class, and how often it and those equal to it are called."""

    class_name: str
    times: int


@dataclass(frozen=True, slots=True)
class ModuleCall(Op):
    """A call of a module, in place of an operation of the vocabulary: its class, and those above it.

    `holders` are the modules on the way from the whole to this one, both included: one more than the path
    has steps.
    """

    name: str
    class_name: str
    holders: tuple[PathModule, ...] = ()


@dataclass(frozen=True, slots=True)
class Uncounted:
    """An operation that may multiply tensors and that has no formula: its name, its module, how often."""

    op: str
    path: str
    calls: int


@dataclass(frozen=True, slots=True)
class AttentionCalls:
    """Calls of attention kernels by what their mask is: none, causal, given or unknown."""

    mask: str
    calls: int
    flops: int
    executed: int


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The bytes of one pass: what is there before it, the most that lives at once, and where.

    `kept` lives when the forward has ended; `peak` counts weights, buffers and inputs, and the gradients
    that exist by then. `end` is what a step leaves: those and all gradients. `trained` are the shapes of the
    weights with a gradient, and the bytes of an element of each.
    """

    weights: int = 0
    buffers: int = 0
    inputs: int = 0
    gradients: int = 0
    trained: Sequence[tuple[Shape, int]] = ()
    kept: int = 0
    peak: int = 0
    end: int = 0
    moment: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class ModuleTimes:
    """Seconds of a module's passes here: medians of `passes` plain ones and of as many timed ones.

    `by_path` has the operations of each module's own calls, forward and backward; `by_class` all operations
    by the class of their cost. What a plain pass takes beyond them is Python and torch's dispatcher.
    """

    wall_s: float
    passes: int
    by_path: Mapping[str, tuple[float, float]]
    by_class: Mapping[str, float]


@dataclass(frozen=True)
class ModuleRun:
    """One watched run of a module: its name, where it came from, its rows, and what is to be said of it.

    `inputs` are the shapes that it was given, as `ids=int64[1,2048]`; `ties` say which weights are others'.
    `trained` are the elements of weights that are not frozen, `buffers` and `dtypes` bytes.
    """

    name: str
    source: str
    phase: str
    run_on: str
    inputs: Sequence[str]
    rows: Sequence[Row]
    uncounted: Sequence[Uncounted] = ()
    attention: Sequence[AttentionCalls] = ()
    ties: Sequence[str] = ()
    trained: int = 0
    buffers: int = 0
    dtypes: Mapping[str, int] = field(default_factory=dict)
    memory: StepMemory | None = None
    times: ModuleTimes | None = None
