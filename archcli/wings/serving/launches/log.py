"""The log of a pass: kernel launches, the operation of each, and autograd's graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.wings.serving.launches.kernel import KernelCost, Stage, StatedWork, cost_of

Gradients = Sequence[Any]
Backward = Callable[..., Gradients]
"""Maps gradients of the outputs, None for an output without one, to gradients of the inputs."""


@dataclass(frozen=True, slots=True, eq=False)
class LaunchOrigin:
    """The operation behind a launch: its path, its number of runs, its parts.

    Compared by identity, so that launches of two operations with one path are counted apart.
    """

    path: str = ""
    times: int = 1
    parts: tuple[Any, ...] = ()
    op: Any = None


NOT_KNOWN = (NotImplementedError, AttributeError, TypeError)
"""Errors of an operation that calls an unknown function of torch, or a known one with unknown options."""


def unknown_kernels(problem: Exception, origin: LaunchOrigin) -> ArchError:
    """The error for an operation whose function of torch is unknown, with what to do."""
    hint = "what it launches can be measured: `archcli profile` runs it"
    return ArchError(Problem(str(problem), hint, path=origin.path))


class LoggedLaunch(NamedTuple):
    """A kernel as it was launched."""

    origin: LaunchOrigin
    stage: Stage
    kernel: KernelCost


@dataclass(slots=True, eq=False)
class GradNode:
    """A step recorded by autograd: its inputs, and the function of their gradients.

    origin: the operation.
    inputs: tensors that get gradients.
    results: (shape, dtype) of each output.
    backward: the function.
    repeats: steps of a loop that it stands for.
    saved: tensors that torch keeps, although no kernel of the backward reads them.
    """

    origin: LaunchOrigin
    inputs: tuple[Any, ...]
    results: tuple[tuple[Any, Any], ...]
    backward: Backward
    repeats: int = 1
    saved: tuple[Any, ...] = ()

    @property
    def outputs(self) -> int:
        """The number of outputs with gradients."""
        return len(self.results)


@dataclass(slots=True, eq=False)
class Log:
    """Launches of a pass so far, and steps recorded by autograd.

    backend: cpu or cuda.
    records: whether autograd records; False within `torch.no_grad()`.
    origin, stage: of the operation that runs now.
    repeats: steps of a loop that it stands for; each launch counts so often.
    launches, nodes: launched kernels, and autograd's steps.
    """

    backend: str = "cuda"
    records: bool = True
    origin: LaunchOrigin = field(default_factory=LaunchOrigin)
    stage: Stage = "forward"
    repeats: int = 1
    launches: Counter[LoggedLaunch] = field(default_factory=Counter)
    nodes: list[GradNode] = field(default_factory=list)
    autocast: Any = None
    """The type in which torch.autocast has products computed; None without it."""
    groups: int = 1
    """Query heads for each head of keys, where code leaves it to torch to share them."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Tensors by name that are made once for all operations, such as a mask of blocks."""

    @property
    def on_cuda(self) -> bool:
        """Whether a GPU's kernels run."""
        return self.backend == "cuda"

    def record(self, node: GradNode) -> None:
        """Autograd records a step."""
        self.nodes.append(node)

    def run(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], work: StatedWork) -> None:
        """torch runs a function on these tensors as one kernel."""
        self.launch(cost_of(name, inputs, outputs, work), inputs, outputs)

    def launch(self, kernel: KernelCost, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """A kernel is launched; a `DataflowLog` notes its tensors, too."""
        self.launches[LoggedLaunch(self.origin, self.stage, kernel)] += self.repeats


_LOG: ContextVar[Log] = ContextVar("log")


def current() -> Log:
    """The log of the pass that runs."""
    return _LOG.get()


@contextmanager
def logged(log: Log) -> Iterator[Log]:
    """Write launches to this log within the block."""
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


@contextmanager
def run_with(autocast: Any = None, groups: int = 1) -> Iterator[None]:
    """Compute products and attention in a type within the block, and share keys among `groups` heads."""
    log = current()
    before = log.autocast, log.groups
    log.autocast, log.groups = autocast, groups
    try:
        yield
    finally:
        log.autocast, log.groups = before


@contextmanager
def without_grad() -> Iterator[None]:
    """Record nothing for a backward within the block."""
    log = current()
    before, log.records = log.records, False
    try:
        yield
    finally:
        log.records = before
