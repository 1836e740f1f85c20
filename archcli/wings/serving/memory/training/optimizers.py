"""Optimizers: the bytes that each allocates for the trained tensors, for its state and during a step.

Bytes are those of torch 2.13 and bitsandbytes 0.50 with default arguments on CUDA, beside the weights and
gradients. `step`, a 4-byte number for every parameter tensor, is kept on the host unless the kernel is fused.

`adam8bit` is AdamW8bit of bitsandbytes. torchao's differs in small tensors and tables alone: tensors below
4,096 elements, or indivisible by 256, stay in their dtype, and every state has a table of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, NamedTuple

from archcli.arith import Number, Shape, ceil_div, maximum, minimum, prod
from archcli.errors import ArchError, quote, suggest
from archcli.graph import Row
from archcli.ops.dense import Linear
from archcli.wings.serving.memory.shares import has_gradients

HEAD = "lm_head"


class TrainedTensor(NamedTuple):
    """A parameter with a gradient: its shape, the bytes of an element, and the number of its copies.

    The routed experts of a layer are one tensor [E, out, in]. A shard is a tensor of the shard's shape.
    `is_matrix`: the [out, in] matrix of a layer, no table, vector, stack or head.
    `summed_width`: bytes of an element of its gradient, where they differ from `width`.
    """

    shape: Shape
    width: int
    count: Number = 1
    is_matrix: bool = False
    summed_width: int = 0

    @property
    def elements(self) -> Number:
        """Elements of one such tensor."""
        return prod(self.shape)

    @property
    def bytes(self) -> Number:
        """Bytes of one such tensor."""
        return self.elements * self.width

    @property
    def gradient_width(self) -> int:
        """Bytes of an element of its gradient."""
        return self.summed_width or self.width


def trained_tensors(rows: Iterable[Row], width: int, summed_width: int = 0) -> Iterator[TrainedTensor]:
    """The trained tensors of a training step's rows, in the order of `model.parameters()`.

    `width`: bytes of an element of the model's dtype, `summed_width` of a gradient's, 0 for the same.
    Weights that several rows use appear where they are stored. A repeated layer comes twice, once for its
    first occurrence and once for all others, so that each tensor follows the one that an optimizer updates
    before it. In patterns of several kinds of layer, a layer is taken to follow its like.
    """
    for _, members in groupby(rows, _layer):
        tensors = [tensor for row in filter(has_gradients, members) for tensor in _tensors(row, width)]
        tensors = [tensor._replace(summed_width=summed_width) for tensor in tensors]
        yield from (tensor._replace(count=minimum(tensor.count, 1)) for tensor in tensors)
        yield from (tensor._replace(count=tensor.count - minimum(tensor.count, 1)) for tensor in tensors)


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


FP32, BF16, STEP = 4, 2, 4
"""Bytes of an element, and of the step count, an fp32 number that AdamW and Adafactor keep per tensor."""


class OptimizerBytes(NamedTuple):
    """Bytes of an optimizer: its state on the device and on the host, and the device's peak within a step.

    `temporaries` are tensors that live beside weights, gradients and state while the step runs.
    """

    device: Number
    host: Number
    temporaries: Number


NO_STATES = OptimizerBytes(0, 0, 0)


class Optimizer(ABC):
    """An update rule, by the tensors it allocates."""

    host_step: ClassVar[int] = 0
    """Bytes on the host for each tensor."""
    has_masters: ClassVar[bool] = False
    """Whether it updates fp32 copies of the weights, and so takes gradients in fp32."""

    def state(self, tensors: Iterable[TrainedTensor]) -> OptimizerBytes:
        """The bytes for these tensors, in the order that they are updated in."""
        tensors = tuple(tensors)
        device = sum((tensor.count * self.tensor_bytes(tensor) for tensor in tensors), 0)
        host = sum((tensor.count * self.host_bytes(tensor) for tensor in tensors), 0)
        return OptimizerBytes(device + self.shared_bytes(tensors), host, self.temporaries(tensors))

    @abstractmethod
    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        """Bytes of one tensor's state on the device."""

    def host_bytes(self, tensor: TrainedTensor) -> Number:
        """Bytes of one tensor's state on the host."""
        return self.host_step

    def shared_bytes(self, tensors: Sequence[TrainedTensor]) -> Number:
        """Bytes of state on the device that all tensors share."""
        return 0

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        """Peak bytes of the temporaries of one step."""
        return 0


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """w -= lr * g, or with momentum w -= lr * b, b = momentum * b + g: a buffer b in the weight's dtype.

    Without weight decay torch's foreach step updates in place: no temporaries.
    """

    buffers: int = 0

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return self.buffers * tensor.bytes


class AdamW(Optimizer):
    """Two moments in the weight's dtype. Loshchilov and Hutter 2017, arXiv:1711.05101.

    torch's default on CUDA is its foreach step, which holds sqrt(exp_avg_sq) of all tensors at once.
    """

    host_step = STEP

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return 2 * tensor.bytes

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        return sum((tensor.count * tensor.bytes for tensor in tensors), 0)


class AdamWLoop(AdamW):
    """AdamW as torch steps on a CPU: tensor by tensor.

    sqrt(exp_avg_sq) and the denominator made of it live beside the denominator of the tensor before.
    """

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        before, peak = 0, 0
        for tensor in tensors:
            present = minimum(tensor.count, 1)
            peak = maximum(peak, present * (before + 2 * tensor.bytes))
            before = before + present * (tensor.bytes - before)
        return peak


class AdamWFused(Optimizer):
    """AdamW in one kernel: no temporaries, and the step count of each tensor on the device."""

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return 2 * tensor.bytes + STEP


class AdamWMixed(Optimizer):
    """AdamW on an fp32 copy of the weights. Micikevicius et al. 2018, arXiv:1710.03740.

    Of weights below 4 bytes an element: 12 bytes of master weight and two moments, as K = 12 of ZeRO
    (arXiv:1910.02054, section 3.1). The step goes tensor by tensor: its gradient is cast to fp32 unless it
    is summed in fp32, the fused kernel updates the master weight, which is copied back. So the largest
    gradient in fp32 is the peak of the temporaries. fp32 weights are their own masters.
    """

    has_masters = True

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        master = 1 if tensor.width < FP32 else 0
        return (2 + master) * FP32 * tensor.elements + STEP

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        return _largest(FP32 * tensor.elements if tensor.gradient_width < FP32 else 0 for tensor in tensors)


class AdamWMixedFused(AdamWMixed):
    """AdamWMixed in one kernel, which reads gradients of any dtype and writes the weights: no temporaries.

    FusedAdam of NVIDIA's Apex and TransformerEngine with `master_weights`, as Megatron-LM steps.
    """

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        return 0


class Adafactor(Optimizer):
    """Row and column factors of the second moment; vectors keep it whole. arXiv:1804.04235.

    Factors are of the last two axes, in the gradient's dtype. torch's default is a loop over the tensors:
    while the update of a tensor is made, that of the tensor before it is still held by its variable, and so
    are the means of the last matrix and the squared gradient of the last vector. Of a DTensor, torch keeps
    both factors whole on every rank, and refuses the step.
    """

    host_step = STEP

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return sum(_factors(tensor), 0) if len(tensor.shape) > 1 else tensor.bytes

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        held, peak = AdafactorLocals(0, 0, 0, 0), 0
        for tensor in tensors:
            present = minimum(tensor.count, 1)
            after, highest = (_of_matrix if len(tensor.shape) > 1 else _of_vector)(tensor, held)
            held = AdafactorLocals(
                *(old + present * (new - old) for old, new in zip(held, after, strict=True))
            )
            peak = maximum(peak, present * highest)
        return peak


class AdafactorLocals(NamedTuple):
    """Bytes of the tensors that the variables of Adafactor's loop hold between two tensors."""

    row_mean: Number
    col_mean: Number
    grad_squared: Number
    update: Number


def _factors(tensor: TrainedTensor) -> tuple[Number, Number]:
    """Bytes of the means over the last axis, and over the one before it."""
    outer = prod(tensor.shape[:-2])
    return outer * tensor.shape[-2] * tensor.width, outer * tensor.shape[-1] * tensor.width


def _of_matrix(tensor: TrainedTensor, held: AdafactorLocals) -> tuple[AdafactorLocals, Number]:
    """What the loop holds after a matrix, and the peak on the way."""
    row, col = _factors(tensor)
    means = maximum(sum(held) + row, sum(held) - held.row_mean + row + col)
    mean_of_rows = prod(tensor.shape[:-2]) * tensor.width
    estimate = row + col + held.grad_squared + held.update + tensor.bytes + mean_of_rows
    return AdafactorLocals(row, col, held.grad_squared, tensor.bytes), maximum(means, estimate)


def _of_vector(tensor: TrainedTensor, held: AdafactorLocals) -> tuple[AdafactorLocals, Number]:
    """What the loop holds after a vector, and the peak on the way."""
    before = held._replace(grad_squared=tensor.bytes)
    after = before._replace(update=tensor.bytes)
    peak = maximum(sum(held) + tensor.bytes, sum(before) + tensor.bytes)
    return after, maximum(peak, sum(after) + tensor.width)


class AdamW8bit(Optimizer):
    """Both moments in 8 bits with an fp32 scale per block of 256. Dettmers et al. 2021, arXiv:2110.02861.

    Tensors below 4,096 elements keep both in fp32. All others share two tables of 256 fp32 values. The
    blockwise kernel needs no temporaries.
    """

    block: ClassVar[int] = 256
    smallest: ClassVar[int] = 4096
    levels: ClassVar[int] = 256

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        n, quantized = tensor.elements, self._quantized(tensor)
        return 2 * (quantized * (n + FP32 * ceil_div(n, self.block)) + (1 - quantized) * FP32 * n)

    def shared_bytes(self, tensors: Sequence[TrainedTensor]) -> Number:
        any_quantized = _largest(minimum(tensor.count, 1) * self._quantized(tensor) for tensor in tensors)
        return 2 * self.levels * FP32 * any_quantized

    def _quantized(self, tensor: TrainedTensor) -> Number:
        """1 for a tensor that is quantized, 0 for one that is too small."""
        return minimum(tensor.elements // self.smallest, 1)


class PagedAdamW8bit(AdamW8bit):
    """AdamW8bit whose moments bitsandbytes keeps in memory that the driver pages to the host.

    Tensors below 100,000 elements stay on the device, and so do scales and tables
    (`get_state_buffer` of bitsandbytes' optimizer.py).
    """

    smallest_paged: ClassVar[int] = 100_000

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return super().tensor_bytes(tensor) - self._paged(tensor)

    def host_bytes(self, tensor: TrainedTensor) -> Number:
        return self._paged(tensor)

    def _paged(self, tensor: TrainedTensor) -> Number:
        """Bytes of both moments of a tensor that is large enough, without their scales."""
        return 2 * tensor.elements * minimum(tensor.elements // self.smallest_paged, 1)


class PagedAdamW(AdamW):
    """AdamW with both moments in fp32, in memory that the driver pages to the host: bitsandbytes' 32 bits."""

    host_step = 0

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return 2 * FP32 * tensor.elements - self.host_bytes(tensor)

    def host_bytes(self, tensor: TrainedTensor) -> Number:
        paged = minimum(tensor.elements // PagedAdamW8bit.smallest_paged, 1)
        return 2 * FP32 * tensor.elements * paged

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        return 0


@dataclass(frozen=True, slots=True)
class Muon(Optimizer):
    """Momentum, orthogonalized by Newton-Schulz iterations, for the matrices of layers. arXiv:2502.16982.

    Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. As torch's Muon takes 2-D parameters
    alone, embeddings, head, vectors and stacked experts are AdamW's, the `rest`, which steps after it.
    A matrix of n elements, the smaller axis m, holds at once the momentum update in its dtype, three bf16
    matrices less one that is the update itself, and two bf16 m x m products.
    """

    rest: Optimizer

    def tensor_bytes(self, tensor: TrainedTensor) -> Number:
        return tensor.bytes if tensor.is_matrix else self.rest.tensor_bytes(tensor)

    def host_bytes(self, tensor: TrainedTensor) -> Number:
        return 0 if tensor.is_matrix else self.rest.host_bytes(tensor)

    def temporaries(self, tensors: Sequence[TrainedTensor]) -> Number:
        rest = self.rest.temporaries([tensor for tensor in tensors if not tensor.is_matrix])
        return maximum(rest, _largest(self._iteration(tensor) for tensor in tensors if tensor.is_matrix))

    def _iteration(self, tensor: TrainedTensor) -> Number:
        """Bytes while a matrix X is iterated: its update; old and new X, X X^T and its polynomial in bf16."""
        side = minimum(*tensor.shape)
        products = 2 * BF16 * side * side
        return minimum(tensor.count, 1) * (tensor.bytes + 2 * BF16 * tensor.elements + products)


def _largest(sizes: Iterable[Number]) -> Number:
    """The largest of the sizes, 0 for none."""
    largest: Number = 0
    for size in sizes:
        largest = maximum(largest, size)
    return largest


OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": AdamW(),
    "adamw-fused": AdamWFused(),
    "adamw-mixed": AdamWMixed(),
    "sgd": SGD(),
    "sgd-momentum": SGD(buffers=1),
    "adafactor": Adafactor(),
    "adam8bit": AdamW8bit(),
    "muon": Muon(AdamW()),
    "adamw-mixed-fused": AdamWMixedFused(),
    "paged-adam8bit": PagedAdamW8bit(),
    "paged-adamw": PagedAdamW(),
}
ON_CPU: dict[str, Optimizer] = {"adamw": AdamWLoop(), "muon": Muon(AdamWLoop())}
"""Optimizers whose step differs on a CPU; there host and device are one, and both count as memory."""


def optimizer(name: str, backend: str = "cuda") -> Optimizer:
    """The optimizer of this name on "cuda" or "cpu"; ArchError for an unknown one."""
    if name not in OPTIMIZERS:
        raise ArchError(f"unknown optimizer {quote(name)}", suggest(name, OPTIMIZERS))
    return ON_CPU.get(name, OPTIMIZERS[name]) if backend == "cpu" else OPTIMIZERS[name]
