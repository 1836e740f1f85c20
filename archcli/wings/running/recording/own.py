"""A user's own module: where its Python package lies, and the recording of a run as plain data.

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
    """A module on the path to another: its class, and how often it and its equals are called."""

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
    """An operation without a FLOP formula that may multiply tensors: its name, its module, its calls."""

    op: str
    path: str
    calls: int


@dataclass(frozen=True, slots=True)
class AttentionCalls:
    """Calls of attention kernels by their mask: none, causal, given or unknown."""

    mask: str
    calls: int
    flops: int
    executed: int


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes of one pass: before it, at its peak, and after it.

    weights, buffers, inputs: before the pass.
    gradients: of all weights.
    trained: (shape, bytes of an element) of each weight with a gradient.
    kept: alive at the end of the forward.
    peak: the most alive, weights, buffers and inputs included.
    end: after the step: weights, buffers, inputs and gradients.
    moment, path: when the peak is reached, and in which operation.
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
    """Seconds of a module's passes on this machine: medians of `passes` plain and as many timed ones.

    by_path: (forward, backward) of the operations that each module calls itself.
    by_class: all operations by the class of their cost.
    The rest of a plain pass is Python and torch's dispatcher.
    """

    wall_s: float
    passes: int
    by_path: Mapping[str, tuple[float, float]]
    by_class: Mapping[str, float]


@dataclass(frozen=True)
class ModuleRun:
    """One watched run of a module.

    name, source: of the module.
    phase, run_on: of the run.
    inputs: as `ids=int64[1,2048]`.
    rows: its operations.
    uncounted: operations without a formula.
    attention: calls of torch's attention.
    ties: sentences on weights that are the same tensor.
    trained: elements of weights that are not frozen.
    buffers: their bytes.
    dtypes: bytes of weights by dtype.
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
    """Whether to import `pkg.module:function` with the working directory on sys.path.

    True if only the working directory has the package. Raises ArchError if nothing has it.
    """
    package = name.partition(":")[0].partition(".")[0]
    with import_path(here=here):
        if package in sys.modules or find_spec(package) is not None:
            return here
    if not here and package in modules_in([_working_directory()]):
        return True
    raise no_module(package, here=here)


def no_module(missing: str, *, here: bool = False) -> ArchError:
    """The error for a missing package, with packages of a similar name."""
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
    """Names of the modules in these folders; of None all that can be imported."""
    return [module.name for module in iter_modules(folders) if not module.name.startswith("_")]


def _working_directory() -> str:
    return str(os.getcwd())  # noqa: PTH109 - as Python writes it into sys.path
