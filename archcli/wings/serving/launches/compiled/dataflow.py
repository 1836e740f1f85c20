"""Data flow of a pass: its launches in order, each with the memory that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from archcli.arith import prod
from archcli.wings.serving.launches.kernel import KernelCost, Stage
from archcli.wings.serving.launches.log import LaunchOrigin, Log
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, TensorMemory, row_major
from archcli.wings.serving.recorded.classes import RANDOM, class_of, is_fused, is_product
from archcli.wings.serving.recorded.operations import OpKey

LIBRARY_KERNELS = {
    *("sort", "topk", "max", "bincount", "randperm", "cumsum", "linalg_solve_triangular", "flip"),
    *("scatter", "scatter_add", "index_add", "index_put"),
}
"""Kernels that a compiler takes from a library beside products and attention, or cannot fuse with others."""
REDUCTIONS = {
    *("sum", "mean", "amax", "std", "logsumexp", "_softmax", "_softmax_backward_data"),
    *("_log_softmax", "_log_softmax_backward_data", "native_layer_norm", "native_layer_norm_backward"),
    *("_fused_rms_norm", "_fused_rms_norm_backward", "native_batch_norm", "native_batch_norm_backward"),
    "embedding_dense_backward",
}
SOFTMAXES = {"_softmax", "_log_softmax"}
NORMS = {"native_layer_norm", "_fused_rms_norm"}
"""Kernels that a compiler splits in two: a reduction over an axis, and an element-wise end."""


class FusionKind(Enum):
    """How a compiler treats a launch: inlined into its readers, a reduction, or a library call."""

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    LIBRARY = "library"


class MemoryRegion(NamedTuple):
    """A part of a tensor's memory that a launch reads or writes: its start, layout and bytes."""

    memory: TensorMemory
    offset: int
    shape: Sizes
    strides: Sizes
    itemsize: int
    bytes: int

    @classmethod
    def of(cls, x: ShapeTensor) -> MemoryRegion:
        """All of a tensor."""
        return cls(x.storage, x.offset, x.shape, x.strides, x.itemsize, x.bytes)


class DataflowLaunch(NamedTuple):
    """A launch with the memory that it reads and writes.

    number: in the pass. origin, stage: its operation and direction. times: how often it runs.
    kernel, kind: its cost, and how a compiler treats it. reads, writes: regions of memory.
    elements: those of its loop. rows: what a reduction leaves of them, any other launch all.
    """

    number: int
    origin: LaunchOrigin
    stage: Stage
    times: int
    kernel: KernelCost
    kind: FusionKind
    reads: tuple[MemoryRegion, ...]
    writes: tuple[MemoryRegion, ...]
    elements: int
    rows: int


@dataclass(slots=True)
class DataflowLog(Log):
    """A log that keeps every launch in order, with what it reads and writes.

    In training, a launch with the inputs of an earlier one in an operation of the same settings is not kept:
    the graph of both directions has its result once (`fx_graph_cse`).
    """

    sequence: list[DataflowLaunch] = field(default_factory=list)
    # what a launch with these contents wrote first
    known: dict[object, tuple[MemoryRegion, ...]] = field(default_factory=dict)
    # memory of a result that is not kept, and that of the equal one
    same: dict[TensorMemory, TensorMemory] = field(default_factory=dict)
    # the operation that runs, how many launches it has made, and its settings
    begun: tuple[LaunchOrigin, int, str] = (LaunchOrigin(), 0, "")

    def launch(self, kernel: KernelCost, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """A kernel is launched on these tensors."""
        reads = tuple([region._replace(memory=self.now(region.memory)) for region in _read(kernel, inputs)])
        writes = tuple([MemoryRegion.of(x) for x in outputs])
        if self.records and self.stage == "forward":
            earlier = self.known.setdefault(self._contents(kernel, reads), writes)
            if earlier is not writes:
                self.same |= {x.memory: first.memory for x, first in zip(writes, earlier, strict=True)}
                return
        if kernel.name not in SOFTMAXES | NORMS:
            self._keep(kernel, _kind(kernel.name), reads, writes)
            return
        result, *kept = writes
        kept = kept or [_of_softmax(result, self.on_cuda)]
        self._keep(kernel, FusionKind.REDUCTION, reads, tuple(kept))
        again = reads if kernel.name in NORMS or self.on_cuda else ()
        self._keep(kernel._replace(flops=0), FusionKind.POINTWISE, (*again, *kept), (result,))

    def _keep(
        self,
        kernel: KernelCost,
        kind: FusionKind,
        reads: tuple[MemoryRegion, ...],
        writes: tuple[MemoryRegion, ...],
    ) -> None:
        written = max((int(prod(x.shape)) for x in writes), default=0)
        elements = rows = written
        if kind is FusionKind.REDUCTION:
            read = max(reads, key=lambda x: int(prod(x.shape)))
            elements = max(written, int(prod(read.shape)))
            width = int(read.shape[-1]) if read.shape else 1
            rows = elements // max(width, 1) if written == elements else written
        number, times = len(self.sequence), self.origin.times * self.repeats
        self.sequence.append(
            DataflowLaunch(
                number, self.origin, self.stage, times, kernel, kind, reads, writes, elements, rows
            )
        )

    def now(self, memory: TensorMemory) -> TensorMemory:
        """The memory, or that of an earlier, equal result."""
        return self.same.get(memory, memory)

    def _contents(self, kernel: KernelCost, reads: tuple[MemoryRegion, ...]) -> object:
        """A key that is equal for launches with equal results: the operation's settings, and its inputs."""
        origin, place, settings = self.begun
        if self.origin is not origin:
            op = self.origin.op
            place, settings = 0, "" if op is None else repr(op).replace(f"name={op.name!r}", "")
        self.begun = self.origin, place + 1, settings
        # no two draws of random numbers are equal
        drawn = class_of(OpKey("", self.stage, kernel.name), ()) == RANDOM
        return object() if drawn or not settings else (settings, place, kernel.name, reads)


def _kind(name: str) -> FusionKind:
    if name in LIBRARY_KERNELS or is_product(name) or is_fused(name):
        return FusionKind.LIBRARY
    return FusionKind.REDUCTION if name in REDUCTIONS else FusionKind.POINTWISE


def _of_softmax(result: MemoryRegion, on_cuda: bool) -> MemoryRegion:
    """What the end of a softmax reads: on a CPU the exponentials, on a GPU a sum for each row."""
    shape = (*result.shape[:-1], 1) if on_cuda else result.shape
    elements = int(prod(shape))
    size = elements * result.itemsize
    return MemoryRegion(TensorMemory(shape), 0, shape, row_major(shape), result.itemsize, size)


def _read(kernel: KernelCost, inputs: Sequence[ShapeTensor]) -> Iterator[MemoryRegion]:
    """What a launch reads: its inputs; where it reads less, as of a table, a part of the largest."""
    regions = [MemoryRegion.of(x) for x in inputs]
    if regions:
        largest = max(range(len(regions)), key=lambda i: regions[i].bytes)
        rest = sum(region.bytes for region in regions) - regions[largest].bytes
        regions[largest] = regions[largest]._replace(bytes=max(0, kernel.read - rest))
    yield from regions
