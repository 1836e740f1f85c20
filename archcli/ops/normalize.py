"""Normalize: LayerNorm and RMSNorm, with or without weights, as one op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import FP32, Call, In, Kept, New
from archcli.ops import base


@dataclass(frozen=True, slots=True, eq=False)
class Normalize(Op):
    """y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * (offset + weight) + bias over the last axis.

    LayerNorm (arXiv:1607.06450) is centred; RMSNorm (arXiv:1910.07467) is not, its mean is taken as 0. `axes`
    of the input the weight spans: 1 for [d]; 2 for [H, d], a gain per head. `offset` 1 stores the weight
    minus one (Gemma). With `groups` n each n-th of the axis has a statistic of its own (Mamba-2).
    """

    name: str
    eps: float
    centred: bool = False
    weight: bool = True
    bias: bool = False
    offset: float = 0.0
    axes: int = 1
    groups: Number = 1

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        size = x[len(x) - self.axes :]
        return ({"weight": size} if self.weight else {}) | ({"bias": size} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), sum((prod(size) for size in self.weights(x).values()), 0)
        full, back, weight = (
            (base.LAYERNORM_FORWARD - 2, base.LAYERNORM_BACKWARD, base.LAYERNORM_WEIGHT)
            if self.centred
            else (base.RMSNORM_FORWARD - 1, base.RMSNORM_BACKWARD, base.RMSNORM_WEIGHT)
        )
        per_element = full + self.weight + self.bias
        gradients = [Part("d_0", OpClass.NORMALIZATION, back * n, 2 * n + width, n, wrt=0)]
        if self.weight or self.bias:
            gradients.append(Part("d_weight", OpClass.NORMALIZATION, weight * n, 2 * n, width, wrt="weight"))
        return (Part("normalize", OpClass.NORMALIZATION, per_element * n, n + width, n, tuple(gradients)),)

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        n, rows, affine = prod(x), prod(x[: len(x) - self.axes]), self.weight or self.bias
        if self._is_leaf and self.centred:
            return (In(0), New(rows, self._statistics(call)), New(rows, self._statistics(call)))
        if self._is_leaf and call.on_cuda:
            return (In(0), New(rows, FP32))
        wide: list[Kept] = [New(n, FP32) if self.centred else call.in_float(n), New(rows * self.groups, FP32)]
        return (*wide, New(n, FP32)) if affine and call.trained else tuple(wide)

    def _statistics(self, call: Call) -> Number:
        """Bytes of a mean or a deviation: fp32 on a GPU, the input's on a CPU."""
        return FP32 if call.on_cuda else call.widths[0]

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        wide = x.float()
        if self.groups != 1:
            wide = wide.unflatten(-1, (self.groups, -1))
        if self.centred:
            wide = wide - wide.mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        wide = wide.reshape(x.shape)
        if self.weight:
            wide = wide * (self.offset + weights["weight"].float())
        if self.bias:
            wide = wide + weights["bias"].float()
        return wide.type_as(x)

    def initial(self, weight: str) -> float | None:
        return 1.0 - self.offset if weight == "weight" else 0.0

    @property
    def _is_leaf(self) -> bool:
        """Whether torch has a module for it."""
        if self.offset or self.axes > 1 or self.groups != 1 or not self.weight:
            return False
        return self.centred or not self.bias

    def leaf(self, nn: Any, x: Shape) -> Any:
        if not self._is_leaf:
            return None
        if self.centred:
            return nn.LayerNorm(x[-1], eps=self.eps, bias=self.bias)
        return nn.RMSNorm(x[-1], eps=self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class LentNormalize(Op):
    """Normalize with the weights of another operation: inputs x [..., d], weight [d], and bias [d] if any."""

    name: str
    eps: float
    centred: bool = False
    offset: float = 0.0

    def shape(self, x: Shape, weight: Shape, *bias: Shape) -> Shape:
        return x

    def parts(self, x: Shape, weight: Shape, *bias: Shape) -> tuple[Part, ...]:
        own = self._like(bias=bool(bias)).parts(x)[0]
        back, gain = own.backward
        lent = replace(gain, name="d_1", wrt=tuple(range(1, 2 + len(bias))))
        return (replace(own, backward=(back, lent)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, weight: Any, *bias: Any) -> Any:
        lent = dict(zip(("weight", "bias"), (weight, *bias), strict=False))
        return self._like(bias=bool(bias)).run(torch, lent, x)

    def _like(self, *, bias: bool) -> Normalize:
        return Normalize(self.name, self.eps, self.centred, bias=bias, offset=self.offset)
