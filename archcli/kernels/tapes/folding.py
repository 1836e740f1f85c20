"""Folding: one run of a layer stands for all of its group, where they all launch the same kernels.

What a layer launches follows from the tensors that it is given. So the layers of a group are alike if what
enters each is like what leaves it, forward and backward, and if they share nothing else through which
gradients flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.graph import Tensor, tree_map
from archcli.kernels.log import GradNode
from archcli.kernels.tensor import ShapeTensor

Edge = tuple[int, int]
"""A tensor by the step of autograd that made it, and which of its outputs it is."""
Facts = tuple[Any, ...]
"""All that a function of torch sees of a tensor."""


class UnlikeLayersError(Exception):
    """Layers of a group may differ in what they launch: one cannot stand for the others."""


class FoldedLayers:
    """What enters and leaves the layers of a pass that stand for others.

    Its methods raise UnlikeLayersError where one does not launch what the next one would.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[Edge, Edge]] = []
        self._gradients: dict[Edge, Facts] = {}

    def enter(self, context: Any) -> None:
        """A layer begins."""
        if context.lends or context.borrowed is not None:
            raise UnlikeLayersError
        tree_map(_require_no_gradient, Tensor, context)

    def leave(self, x: ShapeTensor, out: ShapeTensor) -> None:
        """A layer ends."""
        if _facts(x) != _facts(out):
            raise UnlikeLayersError
        if out.node is not None:
            self._ends.append((_edge(x), _edge(out)))

    def arrive(self, node: GradNode, gradients: Mapping[int, ShapeTensor]) -> None:
        """The gradients of the outputs of a step are there."""
        self._gradients.update({(id(node), output): _facts(x) for output, x in gradients.items()})

    def end(self) -> None:
        """The backward ends."""
        if any(self._gradients.get(x) != self._gradients.get(out) for x, out in self._ends):
            raise UnlikeLayersError


def _edge(x: ShapeTensor) -> Edge:
    return id(x.node), x.output


def _facts(x: ShapeTensor) -> Facts:
    return x.shape, x.dtype, x.strides, x.offset, x.storage.elements, x.requires_grad, x.repeats


def _require_no_gradient(x: Tensor) -> Tensor:
    if x.value.requires_grad:
        raise UnlikeLayersError
    return x
