"""The pieces of every function of the stand-in for torch: launch, view, broadcast, gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.wings.serving.launches.dtypes import COMPLEX, FP32, REAL, DType, of_number, promoted
from archcli.wings.serving.launches.kernel import TOLD_BY_TENSORS, StatedWork
from archcli.wings.serving.launches.layouts import like_inputs
from archcli.wings.serving.launches.log import Backward, GradNode, current
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes


def launch(
    name: str,
    inputs: Sequence[Any],
    shape: Sizes,
    dtype: DType | None = None,
    *,
    backward: Backward | None = None,
    strides: Sizes | None = None,
    work: StatedWork = TOLD_BY_TENSORS,
) -> ShapeTensor:
    """Launch a kernel with one output."""
    (out,) = launch_many(name, inputs, [(shape, dtype)], backward=backward, work=work)
    out.laid = strides
    return out


def launch_many(
    name: str,
    inputs: Sequence[Any],
    outputs: Sequence[tuple[Sizes, DType | None]],
    *,
    backward: Backward | None = None,
    work: StatedWork = TOLD_BY_TENSORS,
    differentiable: int | None = None,
) -> list[ShapeTensor]:
    """Launch a kernel with these outputs; the first `differentiable` have gradients, by default all.

    The others are saved for the backward: statistics, sums of rows, random states.
    """
    tensors = [x for x in inputs if isinstance(x, ShapeTensor)]
    first = tensors[0].dtype if tensors else FP32
    results = [ShapeTensor(shape, dtype or first) for shape, dtype in outputs]
    log = current()
    log.run(name, tensors, results, work)
    for x in results:
        x.repeats = log.repeats
    if log.records and backward is not None:
        with_gradients = results if differentiable is None else results[:differentiable]
        record(with_gradients, inputs, backward)
        save_for_backward(results[0], *results[len(with_gradients) :])
    return results


def lowered(*inputs: Any) -> Sequence[Any]:
    """The inputs of a product, in the type that torch.autocast computes it in."""
    dtype = current().autocast
    if dtype is None:
        return inputs
    return [x.to(dtype) if isinstance(x, ShapeTensor) and x.dtype.kind == REAL else x for x in inputs]


def launch_gradients(
    name: str, reads: Sequence[Any], inputs: Sequence[Any], *, work: StatedWork = TOLD_BY_TENSORS
) -> tuple[Any, ...]:
    """Launch a kernel for the gradients of several inputs; None for an input that needs none."""
    outputs = [(x.shape, x.dtype) for x in inputs if needs_grad(x)]
    gradients = iter(launch_many(name, reads, outputs, work=work))
    return tuple([next(gradients) if needs_grad(x) else None for x in inputs])


def view(
    x: ShapeTensor,
    shape: Sizes,
    strides: Sizes,
    offset: int = 0,
    backward: Backward | None = None,
    dtype: DType | None = None,
) -> ShapeTensor:
    """A view of x: nothing is launched.

    Where nothing is recorded, that of a weight still needs a gradient in torch's eyes, which decides how it
    multiplies by it.
    """
    log = current()
    out = ShapeTensor(shape, dtype or x.dtype, strides, x.storage, x.offset + offset)
    out.repeats = log.repeats
    if log.records:
        record([out], [x], backward)
    else:
        out.requires_grad = x.requires_grad
    return out


def record(outputs: Sequence[ShapeTensor], inputs: Sequence[Any], backward: Backward | None) -> None:
    """Note for autograd how the gradients of outputs become those of inputs, if any input needs one."""
    log = current()
    if backward is None or not log.records or not any(needs_grad(x) for x in inputs):
        return
    outputs = [x for x in outputs if x.dtype.kind in (REAL, COMPLEX)]
    results = tuple([(x.shape, x.dtype) for x in outputs])
    node = GradNode(log.origin, tuple(inputs), results, backward, log.repeats)
    log.record(node)
    for i, x in enumerate(outputs):
        x.node, x.output, x.requires_grad = node, i, True


def save_for_backward(out: ShapeTensor, *saved: Any) -> None:
    """Note tensors that autograd keeps for `out` although no kernel of the backward reads them."""
    if out.node is not None:
        out.node.saved += tuple([x for x in saved if x is not None])


def needs_grad(x: Any) -> bool:
    """Whether a gradient flows to it."""
    return isinstance(x, ShapeTensor) and x.requires_grad


def broadcast(*shapes: Sizes) -> Sizes:
    """The common shape of several."""
    first, *others = shapes
    if all(shape == first for shape in others):
        return first
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def result_type(*values: Any) -> DType:
    """The number type of a result: tensors with axes decide over those without, these over numbers."""
    ranks: list[list[DType]] = [[], [], []]
    for value in values:
        if isinstance(value, ShapeTensor):
            ranks[0 if value.shape else 1].append(value.dtype)
        else:
            ranks[2].append(of_number(value))
    chosen: DType | None = None
    for rank in ranks:
        for dtype in rank:
            if chosen is None or dtype.kind > chosen.kind:
                chosen = dtype
            elif rank is ranks[0] or (rank is ranks[1] and not ranks[0]):
                chosen = promoted(chosen, dtype)
    return chosen or FP32


def elementwise(
    name: str, *inputs: Any, backward: Backward | None = None, dtype: DType | None = None
) -> ShapeTensor:
    """Launch an element-wise kernel: broadcast shape, promoted type, strides of the first input.

    `backward` gives gradients in the shape of the output; they are summed to those of the inputs.
    """
    tensors = [x for x in inputs if isinstance(x, ShapeTensor)]
    shape = broadcast(*[x.shape for x in tensors])
    out_dtype = result_type(*inputs) if dtype is None else dtype
    return launch(name, inputs, shape, out_dtype, backward=backward, strides=like_inputs(shape, tensors))


def sum_to(gradient: Any, shape: Sizes) -> Any:
    """The gradient summed over the axes along which an input was broadcast."""
    if gradient is None or gradient.shape == shape:
        return gradient
    lead = len(gradient.shape) - len(shape)
    axes = [i for i, size in enumerate(gradient.shape) if i < lead or (shape[i - lead] == 1 and size != 1)]
    if axes:
        gradient = gradient.sum(axes, keepdim=True)
    return gradient.view(shape) if lead else gradient
