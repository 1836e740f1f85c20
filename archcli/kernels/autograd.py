"""The backward of a logged pass: its steps in reverse, and the sums of gradients that meet."""

from __future__ import annotations

from typing import Any

from archcli.kernels.log import NOT_KNOWN, GradNode, Log, logged, unknown_kernels, without_grad
from archcli.kernels.tapes.folding import FoldedLayers
from archcli.kernels.tensor import METHODS, ShapeTensor


def run_backward(
    log: Log, outputs: list[ShapeTensor], gradients: list[ShapeTensor], folded: FoldedLayers | None = None
) -> list[ShapeTensor]:
    """Launch the kernels of the backward from the gradients of the outputs; returns those of the weights.

    `folded` are layers that stand for others, if there are any, whose gradients are held against each other.
    """
    waiting: dict[int, dict[int, ShapeTensor]] = {}
    leaves: dict[int, ShapeTensor] = {}
    for output, gradient in zip(outputs, gradients, strict=True):
        if output.node is not None:
            waiting.setdefault(id(output.node), {})[output.output] = gradient
    log.stage = "backward"
    with logged(log), without_grad():
        for node in reversed(log.nodes):
            given = waiting.pop(id(node), None)
            if given is None:
                continue
            if folded is not None:
                folded.arrive(node, given)
            log.origin, log.repeats = node.origin, node.repeats
            try:
                of_inputs = node.backward(*[given.get(i) for i in range(node.outputs)])
            except NOT_KNOWN as problem:
                raise unknown_kernels(problem, node.origin) from problem
            for x, gradient in zip(node.inputs, of_inputs, strict=False):
                _accumulate(x, gradient, waiting, leaves, log)
    log.stage = "forward"
    if folded is not None:
        folded.end()
    return list(leaves.values())


def _accumulate(
    x: Any,
    gradient: ShapeTensor | None,
    waiting: dict[int, dict[int, ShapeTensor]],
    leaves: dict[int, ShapeTensor],
    log: Log,
) -> None:
    """Add a gradient to what there is of its tensor, in that tensor's number type."""
    if gradient is None or not isinstance(x, ShapeTensor) or not x.requires_grad:
        return
    if gradient.dtype != x.dtype:
        gradient = METHODS["to"](gradient, x.dtype)
    node: GradNode | None = x.node
    place, key = (leaves, id(x)) if node is None else (waiting.setdefault(id(node), {}), x.output)
    if key in place:
        log.stage = "sums"
        gradient = METHODS["add"](place[key], gradient)
        log.stage = "backward"
    place[key] = gradient
