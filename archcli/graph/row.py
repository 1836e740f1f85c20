"""Rows: the result of counting, one per operation; every report is a sum over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from archcli.arith import Number, Shape, prod, rounded, touched
from archcli.graph.op import Op
from archcli.graph.part import Part, State


class Experts(NamedTuple):
    """How many routed experts a row inside a mixture stands for, and how many each token uses.

    `n_experts` copies of its weights are stored, each token passes through `top_k` of them: a fraction where
    some of the experts that it is sent to compute nothing. On one of `ranks` that share the experts,
    `n_experts` are its own, and `top_k` are those of all ranks.
    """

    n_experts: Number
    top_k: Number
    ranks: Number = 1

    def reached(self, assigned: int) -> float:
        """How many of the experts get a token, on average, of `assigned` pairs of token and expert.

        A rank of a plan has its part of the pairs, and of the experts that get a token.
        """
        ranks, top_k = float(self.ranks), float(self.top_k)
        return float(touched(ranks * float(self.n_experts), top_k, assigned * ranks / top_k)) / ranks


class PassPart(NamedTuple):
    """A part of an operation's cost, run forward or backward; a gradient is named `part/gradient`."""

    stage: Literal["forward", "backward"]
    name: str
    part: Part


@dataclass(slots=True)
class Row:
    """One counted operation of the forward: path, shapes, weights, cost and states.

    group: the heading that its parameters are counted under. op: the operation.
    inputs, outputs: shapes. weights: shapes by name. parts: of the cost. states: cached for later tokens.
    times: occurrences of the row; costs are of one.
    experts: number and choice of the experts that it runs in; None outside of a mixture.
    trained: False for frozen weights, which get no gradient.
    stored: occurrences that store weights; None for all, 1 of layers that share theirs, 0 where the weights
        are an earlier row's.
    """

    path: str
    group: str
    op: Op
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    weights: dict[str, Shape]
    parts: tuple[Part, ...]
    states: tuple[State, ...]
    times: Number
    experts: Experts | None
    trained: bool = True
    stored: Number | None = None

    def pieces(self, phase: str) -> Iterator[PassPart]:
        """The parts that run in a phase; training adds its own parts and the backward of every part."""
        train = phase == "train"
        for part in self.parts:
            # dropout, and the statistics that BatchNorm takes of a batch, run in training alone
            if train or not part.training:
                yield PassPart("forward", part.name, part)
            if train:
                yield from (PassPart("backward", f"{part.name}/{back.name}", back) for back in part.backward)

    @property
    def unit_params(self) -> Number:
        """Parameters of the operation itself: once, and of one expert."""
        return sum((prod(shape) for shape in self.weights.values()), 0)

    @property
    def copies(self) -> Number:
        """How many occurrences have weights of their own."""
        return self.times if self.stored is None else self.stored

    @property
    def params(self) -> Number:
        """Parameters of all occurrences and all experts."""
        return self.unit_params * self.copies * (self.experts.n_experts if self.experts else 1)

    @property
    def active_params(self) -> Number:
        """Parameters that one token passes through; beside zero experts the expected number, rounded."""
        return rounded(self.unit_params * self.copies * (self.experts.top_k if self.experts else 1))
