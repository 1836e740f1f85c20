"""Trained tensors: the parameters that an optimizer is given, read from the rows of a training step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from archcli.arith import Number, Shape, minimum, prod
from archcli.graph import Row
from archcli.ops.dense import Linear

HEAD = "lm_head"


class TrainedTensor(NamedTuple):
    """A parameter with a gradient: its shape, the bytes of an element, and how many there are of it.

    The routed experts of a layer are one tensor [E, out, in]. A shard is a tensor of the shard's shape.
    `is_matrix` says that it is the [out, in] matrix of a layer: no table, vector, stack or head.
    """

    shape: Shape
    width: int
    count: Number = 1
    is_matrix: bool = False

    @property
    def elements(self) -> Number:
        """Elements of one such tensor."""
        return prod(self.shape)

    @property
    def bytes(self) -> Number:
        """Bytes of one such tensor."""
        return self.elements * self.width


def trained_tensors(rows: Iterable[Row], width: int) -> Iterator[TrainedTensor]:
    """The trained tensors of a training step's rows, in the order of `model.parameters()`.

    `width`: bytes of an element of the model's dtype. Weights that several rows use appear where they are
    stored. A repeated layer comes twice, once for its first occurrence and once for all others, so that
    each tensor follows the one that an optimizer updates before it. In patterns of several kinds of layer,
    a layer is taken to follow its like.
    """
    for _, members in groupby(rows, _layer):
        tensors = [tensor for row in members if has_gradients(row) for tensor in _tensors(row, width)]
        yield from (tensor._replace(count=minimum(tensor.count, 1)) for tensor in tensors)
        yield from (tensor._replace(count=tensor.count - minimum(tensor.count, 1)) for tensor in tensors)


def has_gradients(row: Row) -> bool:
    """Whether the row's own weights get gradients.

    Those of an indexer, whose choice has none, and a stored sinusoid table, as Whisper's, do not: the rows
    cost something forward and nothing backward. A bare parameter costs nothing in itself.
    """
    return row.trained and (not row.parts or any(part.backward for part in row.parts))


def _layer(row: Row) -> str:
    """The path of the layer that a row lies in; empty outside of layers."""
    before, layers, after = row.path.partition("layers.")
    return f"{before}{after.partition('.')[0]}" if layers else ""


def _tensors(row: Row, width: int) -> Iterator[TrainedTensor]:
    stack = (row.experts.n_experts,) if row.experts else ()
    # by class, as tables, decays and biases of positions have two axes as well
    linear = isinstance(row.op, Linear) and not stack and row.group != HEAD
    for name, shape in row.weights.items():
        yield TrainedTensor((*stack, *shape), width, row.copies, linear and name == "weight")
