"""Kernels that torch launches: FLOPs, bytes and dtype of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from archcli.wings.serving.launches.dtypes import COMPLEX, REAL
from archcli.wings.serving.recorded.classes import flops_per_element

Stage = Literal["forward", "backward", "sums"]
"""`sums` are the additions by which autograd accumulates gradients of a tensor that was used twice."""


class AttentionCall(NamedTuple):
    """The sizes of an engine's call of attention, of one rank.

    batch: sequences.
    queries, length: new tokens of each sequence, and all tokens with those in the cache.
    heads, kv_heads: query heads, and heads of keys and values.
    width, value_width: elements of a key, and of a value.
    window: keys that a query sees; 0 for all before it.
    latent: values are a part of the keys (MLA).
    cache: dtype of the cache; empty for the dtype of the kernel.
    """

    batch: int
    queries: int
    length: int
    heads: int
    kv_heads: int
    width: int
    value_width: int
    window: int = 0
    latent: bool = False
    cache: str = ""


class KernelCost(NamedTuple):
    """One launch: torch's name, FLOPs, bytes read and written, and the dtype in which it computes.

    call: the sizes of an engine's kernel; None for others.
    least_read: bytes read at the least, where they depend on data; None where they do not.
    """

    name: str
    flops: int
    read: int
    written: int
    dtype: str
    call: Any = None
    least_read: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def least_bytes(self) -> int:
        """Bytes read and written at the least."""
        return self.written + (self.read if self.least_read is None else self.least_read)


class KernelRun(NamedTuple):
    """A kernel of an operation of the architecture.

    path: of the operation.
    stage: forward, backward or sums; in a training step of `archcli predict` also recomputed, loss or update.
    op_class: a time class of a profile.
    times: launches; a fraction if the stages of a pipeline share them.
    """

    path: str
    stage: str
    kernel: KernelCost
    op_class: str
    times: float


class StatedWork(NamedTuple):
    """FLOPs and bytes of a kernel that do not follow from its tensors; None for those that do.

    call: the sizes of an engine's kernel.
    """

    flops: int | None = None
    read: int | None = None
    written: int | None = None
    call: Any = None


TOLD_BY_TENSORS = StatedWork()


def cost_of(name: str, inputs: Sequence[Any], outputs: Sequence[Any], work: StatedWork) -> KernelCost:
    """The cost of a launch: its stated work, and the rest by the elements and bytes of its tensors."""
    both = [*inputs, *outputs]
    flops = _flops(name, both) if work.flops is None else work.flops
    read = sum(x.bytes for x in inputs) if work.read is None else work.read
    written = sum(x.bytes for x in outputs) if work.written is None else work.written
    return KernelCost(name, flops, read, written, _computes_in(both), work.call)


def _flops(name: str, tensors: Sequence[Any]) -> Any:
    """FLOPs by the elements of the largest tensor; 0 for integer arithmetic."""
    if not any(x.dtype.kind in (REAL, COMPLEX) for x in tensors):
        return 0
    return flops_per_element(name) * max(x.elements for x in tensors)


def _computes_in(tensors: Sequence[Any]) -> Any:
    """The dtype of a kernel: that of its first real or complex tensor."""
    return next((x.dtype.parts for x in tensors if x.dtype.kind in (REAL, COMPLEX)), tensors[0].dtype.name)
