"""Scratch: the tensors that an operation makes while it runs, and which of them its backward keeps.

A rule is written as the run is, step by step, on buffers in place of tensors: one is alive while a name of
the rule, or what is kept, refers to it.
"""

from __future__ import annotations

from archcli.arith import Number, maximum
from archcli.graph.kept import Call, In, Kept, New, Out


class ScratchTensor:
    """A tensor of an operation's own while it is alive."""

    __slots__ = ("kept", "scratch")

    def __init__(self, scratch: Scratch, kept: New) -> None:
        self.scratch, self.kept = scratch, kept
        scratch.hold(kept.elements * kept.width)

    def __del__(self) -> None:
        self.scratch.live = self.scratch.live - self.kept.elements * self.kept.width


class Scratch:
    """What an operation has made of late: bytes alive, the most there were, and what the backward keeps.

    `running` leaves out the operation's outputs, though a peak may come before they are made.
    """

    __slots__ = ("held", "live", "peak", "records")

    def __init__(self, call: Call) -> None:
        self.live: Number = 0
        self.peak: Number = 0
        self.records = call.execution.records
        self.held: list[ScratchTensor | In | Out] = []

    def new(self, elements: Number, width: Number) -> ScratchTensor:
        """A new tensor of so many elements, of so many bytes each."""
        return ScratchTensor(self, New(elements, width))

    def hold(self, size: Number) -> None:
        """So many bytes more are alive."""
        self.live = self.live + size
        self.peak = maximum(self.peak, self.live)

    def save(self, tensor: ScratchTensor | In | Out, needed: bool = True) -> None:
        """Keep a tensor for the backward, where a gradient needs it."""
        known = any(type(tensor) is type(held) and tensor == held for held in self.held)
        if needed and self.records and not known:
            self.held.append(tensor)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What the backward keeps, in the order in which it was saved."""
        return tuple([x.kept if isinstance(x, ScratchTensor) else x for x in self.held])

    def running(self, outputs: Number) -> Number:
        """The most bytes that were alive at once, less those of the outputs."""
        return self.peak - outputs
