"""Ops on matrices: Linear, Lookup, Parameter, Einsum, Gather, Conv1d, Fourier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_log2, prod
from archcli.graph import Op, Part, Workspace
from archcli.graph.kept import Call
from archcli.ops.base import bias, contraction, elementwise, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class Linear(Op):
    """y = x W^T + b. Input [..., in], output [..., out]; weight [out, in].

    With `borrowed`, the weight is the second input and declared elsewhere. A `stored_bias` is kept but not
    trained, and so no parameter. `zeroed` starts as zero.
    """

    drawn: ClassVar[str] = "matrix"
    name: str
    out: Number
    bias: bool = False
    borrowed: bool = False
    stored_bias: bool = False
    zeroed: bool = False
    grouped: ClassVar[bool] = True
    sums_bias: ClassVar[bool] = True

    def shape(self, x: Shape, weight: Shape | None = None) -> Shape:
        return (*x[:-1], self.out)

    def weights(self, x: Shape, weight: Shape | None = None) -> dict[str, Shape]:
        matrix = {} if self.borrowed else {"weight": (self.out, x[-1])}
        return matrix | ({"bias": (self.out,)} if self.bias else {})

    def buffers(self, x: Shape, weight: Shape | None = None) -> dict[str, Shape]:
        return {"bias": (self.out,)} if self.stored_bias else {}

    def parts(self, x: Shape, weight: Shape | None = None) -> tuple[Part, ...]:
        out = prod(x[:-1]) * self.out
        operands: list[tuple[Number, int | str]] = [
            (prod(x), 0),
            (self.out * x[-1], 1 if self.borrowed else "weight"),
        ]
        product = contraction("matmul", 2 * prod(x) * self.out, operands, out)
        # added in the forward, and without a gradient
        if self.stored_bias:
            return (product, replace(bias(out, self.out), backward=()))
        return (product, bias(out, self.out)) if self.bias else (product,)

    def space(self, call: Call, x: Shape, weight: Shape | None = None) -> Workspace:
        """Of routed experts the products, and the bias of every copy's expert, until they are added."""
        adds_bias = self.bias and call.n_experts is not None
        return Workspace(2 * call.widths[0] * prod(x[:-1]) * self.out if adds_bias else 0)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, weight: Any = None) -> Any:
        return torch.nn.functional.linear(
            x, weights["weight"] if weight is None else weight, weights.get("bias")
        )

    def leaf(self, nn: Any, x: Shape, weight: Shape | None = None) -> Any:
        # nn.Linear owns its weight and trains its bias
        if self.borrowed or self.stored_bias:
            return None
        return (nn.ZeroLinear if self.zeroed else nn.Linear)(x[-1], self.out, bias=self.bias)

    def initial(self, weight: str) -> float | None:
        return 0.0 if self.zeroed or weight != "weight" else None


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Op):
    """A row of a table per id. Input [...] of ids, output [..., width]; weight [entries, width].

    A gather: no FLOPs forward; backward adds the gradient of every id to its row. A `frozen` table is a
    parameter that gets no gradient, a `zeroed` one starts as zero.
    """

    name: str
    entries: Number
    width: Number
    zeroed: bool = False
    frozen: bool = False

    def trained(self, grads: list[bool], ids: Shape) -> bool:
        return not self.frozen

    def shape(self, ids: Shape) -> Shape:
        return (*ids, self.width)

    def weights(self, ids: Shape) -> dict[str, Shape]:
        return {"weight": (self.entries, self.width)}

    def parts(self, ids: Shape) -> tuple[Part, ...]:
        moved = prod(ids) * self.width
        gradient = summed("weight", moved, self.entries * self.width, index=prod(ids))
        return (movement("gather", moved + prod(ids), moved, () if self.frozen else (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], ids: Any) -> Any:
        return torch.nn.functional.embedding(ids, weights["weight"])

    def leaf(self, nn: Any, ids: Shape) -> Any:
        # nn.Embedding starts with normal numbers
        return None if self.zeroed else nn.Embedding(self.entries, self.width).requires_grad_(not self.frozen)

    def initial(self, weight: str) -> float | None:
        return 0.0 if self.zeroed else None


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Op):
    """A bare trainable tensor. Its input is used only for its tape."""

    drawn: ClassVar[str] = "aside"
    is_weight: ClassVar[bool] = True
    name: str
    size: Shape
    zero_cost_reason: ClassVar[str] = "the op that uses the tensor reads it"

    def shape(self, anchor: Shape) -> Shape:
        return self.size

    def weights(self, anchor: Shape) -> dict[str, Shape]:
        return {"weight": self.size}

    def run(self, torch: Any, weights: dict[str, Any], anchor: Any) -> Any:
        return weights["weight"]


@dataclass(frozen=True, slots=True, eq=False)
class Einsum(Op):
    """A contraction of two input tensors in Einstein notation; it owns no weights.

    `bthn,hnr->bthr` (absorbed MLA).
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "mix"
    name: str
    equation: str

    def shape(self, a: Shape, b: Shape) -> Shape:
        sizes = self._sizes(a, b)
        return tuple(sizes[axis] for axis in self.equation.split("->")[1])

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        flops = 2 * prod(self._sizes(a, b).values())
        return (contraction("matmul", flops, [(prod(a), 0), (prod(b), 1)], prod(self.shape(a, b))),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.einsum(self.equation, a, b)

    @property
    def _labels(self) -> list[str]:
        """Axes of each input."""
        return self.equation.split("->")[0].split(",")

    def _sizes(self, a: Shape, b: Shape) -> dict[str, Number]:
        left, right = self._labels
        return dict(zip(left + right, (*a, *b), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Gather(Op):
    """A row per id of a table that is declared elsewhere, and whose gradient gets another term.

    Inputs ids [...], table [entries, width]; output [..., width].
    """

    name: str

    def shape(self, ids: Shape, table: Shape) -> Shape:
        return (*ids, table[1])

    def parts(self, ids: Shape, table: Shape) -> tuple[Part, ...]:
        moved = prod(ids) * table[1]
        return (
            movement("gather", moved + prod(ids), moved, (summed(1, moved, prod(table), index=prod(ids)),)),
        )

    def run(self, torch: Any, weights: dict[str, Any], ids: Any, table: Any) -> Any:
        return torch.nn.functional.embedding(ids, table)


@dataclass(frozen=True, slots=True, eq=False)
class Conv1d(Op):
    """Convolution along the last axis; weight [out, in, kernel].

    [B, in, n] to [B, out, (n + 2 padding - kernel) // stride + 1].
    """

    sign: ClassVar[str] = "convolution"
    convolves: ClassVar[bool] = True
    name: str
    out: Number
    kernel: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def shape(self, x: Shape) -> Shape:
        return (x[0], self.out, (x[2] + 2 * self.padding - self.kernel) // self.stride + 1)

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (self.out, x[1], self.kernel)} | ({"bias": (self.out,)} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        out = prod(self.shape(x))
        operands: list[tuple[Number, int | str]] = [(prod(x), 0), (self.out * x[1] * self.kernel, "weight")]
        product = contraction("conv", 2 * out * x[1] * self.kernel, operands, out)
        return (product, bias(out, self.out)) if self.bias else (product,)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return torch.nn.functional.conv1d(
            x, weights["weight"], weights.get("bias"), self.stride, self.padding
        )

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.Conv1d(x[1], self.out, self.kernel, self.stride, self.padding, bias=self.bias)


PER_STAGE = 5
"""FLOPs of each element in each of log2 n stages of a fast transform of n numbers: 5 n log2 n in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Fourier(Op):
    """y [B, T, D] = Re F_T(F_D(x)). FNet, arXiv:2105.03824 section 3.2.

    Counted as a fast transform, 5 n log2 n FLOPs for n complex numbers (Cooley & Tukey 1965), stages rounded
    up; not as matrix products.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "Fourier"
    name: str

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("transform", prod(x), transform_flops(1, x[1:])),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        # torch's FFT takes no bf16
        return torch.fft.fftn(x.float(), dim=(1, 2)).real.to(x.dtype)


def transform_flops(n: Number, lengths: Sequence[Number]) -> Number:
    """FLOPs of n complex numbers along axes of these lengths, whose log2 is rounded up."""
    return PER_STAGE * n * sum(ceil_log2(length) for length in lengths)
