"""Ops of linear attention: feature maps of queries and keys, and attention by running sums.

B batch, T new tokens, H heads, d head_dim, m features, e head_dim of values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import contraction, elementwise

Kernel = Literal["elu", "softmax"]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap(Op):
    """phi(x) >= 0: elu(x) + 1 (arXiv:2006.16236), or exp(w x' - |x'|^2 / 2 - max) / sqrt(m) with stored random w [m, d] (arXiv:2009.14794).

    x' = x / d^(1/4). x [B, T, H, d] to [B, T, H, m]. The maximum, which only steadies the exponent, is left out.
    """

    name: str
    kernel: Kernel
    features: Number
    query: bool

    def shape(self, x: Shape) -> Shape:
        return (*x[:-1], x[-1] if self.kernel == "elu" else self.features)

    def buffers(self, x: Shape) -> dict[str, Shape]:
        return {} if self.kernel == "elu" else {"projection": (self.features, x[-1])}

    def parts(self, x: Shape) -> tuple[Part, ...]:
        if self.kernel == "elu":
            return (elementwise("elu", prod(x), 2, curved=True),)
        out = prod(self.shape(x))
        operands: list[tuple[Number, int | str]] = [(prod(x), 0), (self.features * x[-1], "projection")]
        product = contraction("matmul", 2 * prod(x) * self.features, operands, out)
        product = replace(product, backward=product.backward[:1])  # the projection is stored, not trained
        norm = Part("square_norm", OpClass.NORMALIZATION, 2 * prod(x), prod(x), prod(x[:-1]))
        return (elementwise("scale", prod(x)), product, norm, elementwise("exp", out, 3, curved=True))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.kernel == "elu":
            return torch.nn.functional.elu(x) + 1
        x = x * x.shape[-1] ** -0.25
        exponent = x @ weights["projection"].t() - x.square().sum(-1, keepdim=True) / 2
        return exponent.exp() * self.features**-0.5


@dataclass(frozen=True, slots=True, eq=False)
class LinearAttend(Op):
    """out_i = q_i^T S_i / q_i^T z_i with S_i = sum_j k_j v_j^T, z_i = sum_j k_j over j <= i (all j where not causal).

    Inputs q, k [B, T, H, m], v [B, T, H, e], then the cached S [B, H, m, e] and z [B, H, m] if there are any. Outputs
    [B, T, H, e], and with `keep` the new S and z.
    """

    name: str
    causal: bool
    keep: bool

    def shape(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> Any:
        out = (*q[:3], v[3])
        batch, _, heads, m = k
        return (out, (batch, heads, m, v[3]), (batch, heads, m)) if self.keep else (out,)

    def cached(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> Number:
        return prod(k[:1]) * k[2] * k[3] * (v[3] + 1) if self.keep else 0

    def parts(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> tuple[Part, ...]:
        tokens, m, e = prod(q[:3]), q[3], v[3]
        sums = q[0] * q[2] * m * e * (q[1] if self.causal else 1)
        update = contraction("state", 2 * tokens * m * e, [(prod(k), 1), (prod(v), 2)], sums)
        readout = contraction("readout", 2 * tokens * m * e, [(prod(q), 0), (sums, (1, 2))], tokens * e)
        adding = Part("accumulate", OpClass.ELEMENTWISE, sums if self.causal else 0, sums, sums)
        weight = Part("normalizer", OpClass.NORMALIZATION, 3 * tokens * m, 2 * tokens * m, tokens)
        return (update, adding, readout, weight, replace(elementwise("divide", tokens * e), read=tokens * e + tokens))

    def run(self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, *state: Any) -> Any:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return self._causal(torch, q, k, v, *state) if self.causal else self._full(torch, q, k, v)

    def _causal(self, torch: Any, q: Any, k: Any, v: Any, *state: Any) -> Any:
        """Running sums: one outer product per token, so that the work grows with T alone."""
        outer = (k.unsqueeze(-1) @ v.unsqueeze(-2)).cumsum(2)
        total = k.cumsum(2)
        if state:
            outer, total = outer + state[0].unsqueeze(2), total + state[1].unsqueeze(2)
        mixed = (q.unsqueeze(-2) @ outer).squeeze(-2) / (q * total).sum(-1, keepdim=True)
        out = mixed.transpose(1, 2)
        return (out, outer[:, :, -1], total[:, :, -1]) if self.keep else (out,)

    def _full(self, torch: Any, q: Any, k: Any, v: Any) -> Any:
        total = k.sum(2, keepdim=True)
        mixed = (q @ (k.transpose(-1, -2) @ v)) / (q * total).sum(-1, keepdim=True)
        return (mixed.transpose(1, 2),)
