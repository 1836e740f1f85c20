"""A module of one's own: where its Python package lies, and a run of it as plain data.

The data are rows, what was not counted, and the memory of a step: `runtime` writes them from any nn.Module,
`measure` reads them. The package is looked up before torch is imported; nothing of it is run here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import NamedTuple

from archcli.arith import Shape
from archcli.errors import ArchError, closest, either, quote
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
    """The bytes of one pass: before it, at its peak, and the place of the peak.

    weights, buffers, inputs: before the pass. gradients: of all weights.
    trained: (shape, bytes of an element) of each weight with a gradient.
    kept: alive when the forward has ended.
    peak: the most alive, weights, buffers and inputs included, at `moment` and in the operation at `path`.
    end: weights, buffers, inputs and gradients, which a step leaves.
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
    """One watched run of a module.

    name, source: of the module. phase, run_on: of the run.
    inputs: as `ids=int64[1,2048]`.
    rows: its operations. uncounted: those without a formula. attention: calls of torch's attention.
    ties: sentences on weights that are the same tensor.
    trained: elements of weights that are not frozen.
    buffers: bytes. dtypes: bytes of weights by dtype.
    memory, times: of the run; None where they were not measured.
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


@contextmanager
def import_path(*, here: bool) -> Iterator[None]:
    """Let imports search the working directory within the block, or not."""
    before = list(sys.path)
    cwd = _working_directory()
    if here:
        sys.path.insert(0, cwd)
    elif (
        sys.path
        and sys.path[0] in {"", cwd}
        and cwd not in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    ):
        del sys.path[0]  # `python -m archcli` puts it there
    try:
        yield
    finally:
        sys.path[:] = before


def only_here(name: str, *, here: bool) -> bool:
    """Whether `pkg.module:function` is to be looked for in the working directory, too.

    So it is where that alone has the package. Raises ArchError where none has it.
    """
    package = name.partition(":")[0].partition(".")[0]
    with import_path(here=here):
        if package in sys.modules or find_spec(package) is not None:
            return here
    if not here and package in modules_in([_working_directory()]):
        return True
    raise no_module(package, here=here)


def no_module(missing: str, *, here: bool = False) -> ArchError:
    """The error for a package that is not there, with those near its name."""
    parent, _, last = missing.rpartition(".")
    if parent:
        near = closest(last, modules_in(vars(sys.modules[parent]).get("__path__", [])))
    else:
        near = (closest(last, modules_in([_working_directory()])) if here else []) or closest(
            last, modules_in(None)
        )
    what = f"no module {quote(missing)} to import"
    if near:
        return ArchError(what, f"did you mean {either(f'{parent}.{word}'.lstrip('.') for word in near)}?")
    return ArchError(what, "is it installed, in this folder, or its folder on PYTHONPATH?")


def modules_in(folders: Iterable[str] | None) -> list[str]:
    """The modules in these folders; without any, those that can be imported."""
    return [module.name for module in iter_modules(folders) if not module.name.startswith("_")]


def _working_directory() -> str:
    return str(os.getcwd())  # noqa: PTH109 - as Python writes it into sys.path
