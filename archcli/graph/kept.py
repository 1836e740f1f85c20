"""What the backward of an operation keeps: inputs and outputs by reference, or tensors of its own."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from archcli.arith import Number, Shape

Backend = Literal["cuda", "cpu"]
FP32, INT32, INT64, BOOL = 4, 4, 8, 1
"""Bytes of an element of a number type that does not follow the model's."""


class In(NamedTuple):
    """An input, by reference: its storage counts once, whoever else keeps it."""

    which: int = 0


class Out(NamedTuple):
    """An output, by reference."""

    which: int = 0


class New(NamedTuple):
    """A tensor of the operation's own: its elements, and the bytes of each.

    It stands for as many as `count`, of which each step of a loop made one.
    """

    elements: Number
    width: Number
    count: Number = 1

    @property
    def bytes(self) -> Number:
        """Bytes of all of them."""
        return self.elements * self.width * self.count


class OfMixture(NamedTuple):
    """A tensor that operations share, made once: `ends` of experts' tokens, `expert_of`, a mask of blocks."""

    name: str
    elements: Number = 0
    width: Number = 0


Kept: TypeAlias = In | Out | New | OfMixture

SAME = -1
"""In `OpMemory.views`: the storage of the output before."""


class MemoryLayout(NamedTuple):
    """How a tensor lies in memory: number type, and strides; None where it lies in the order of its axes."""

    dtype: Any
    strides: Shape | None = None

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)


class OpMemory(NamedTuple):
    """What a run of an operation leaves in memory: what its backward keeps, and its outputs.

    `views` have for each output the input whose storage it is, None for a new one. `running` are the most
    bytes alive at once while it runs, less those of its outputs; None where that is not asked.
    """

    kept: tuple[Kept, ...]
    views: tuple[int | None, ...]
    layouts: tuple[MemoryLayout, ...]
    running: int | None = None


class Execution(NamedTuple):
    """How torch runs a pass.

    backend: whose kernels run. fused: attention in one kernel where there is one.
    width: bytes of an element in the model's dtype.
    records: autograd keeps what the backward needs.
    assumes: where archcli cannot know what that is, all inputs and outputs; False raises NotImplementedError.
    served: an inference engine runs it, whose kernels fuse attention of every kind.
    scores: the most bytes of an indexer's scores that it holds at once; None holds those of each head.
    flex: FlexAttention runs the attention that torch's other kernels cannot express, as in trainers.
    """

    backend: Backend = "cuda"
    fused: bool = True
    width: Number = 2
    records: bool = True
    assumes: bool = False
    served: bool = False
    scores: Number | None = None
    flex: bool = False

    @property
    def run_as(self) -> str:
        """The method of an operation that runs it so."""
        if not self.fused:
            return "run"
        return "run_served" if self.served else "run_flex" if self.flex else "run_fused"


class Call(NamedTuple):
    """One run of an operation: how it runs, and what is known of its inputs besides their shapes.

    execution: how torch runs the pass.
    grads, widths, layouts: of each input whether a gradient flows to it, bytes of an element, its layout.
    trained: the operation's own weights get a gradient.
    n_experts: routed experts that share its rows; None outside of a mixture.
    """

    execution: Execution
    grads: tuple[bool, ...]
    widths: tuple[Number, ...]
    trained: bool = True
    n_experts: Number | None = None
    layouts: tuple[MemoryLayout | None, ...] = ()

    @property
    def width(self) -> Number:
        """Bytes of an element in the model's dtype."""
        return self.execution.width

    @property
    def on_cuda(self) -> bool:
        """Whether a GPU's kernels run."""
        return self.execution.backend == "cuda"

    @property
    def in_fp32(self) -> bool:
        """Whether the first input is in fp32 already, so that `.float()` copies nothing."""
        return bool(self.widths[0] == FP32)
