"""Ops of linear attention: feature maps of queries and keys, and attention by running sums.

B batch, T new tokens, H heads, d head_dim, m features, e head_dim of values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Workspace
from archcli.ops.base import contraction, elementwise, summed

Kernel = Literal["elu", "softmax"]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap(Op):
    """phi(x) >= 0, the feature map of a kernel: x [B, T, H, d] to [B, T, H, m].

    elu(x) + 1 (arXiv:2006.16236), or exp(w x' - |x'|^2 / 2 - max) / sqrt(m) with x' = x / d^(1/4) and stored
    random w [m, d] (arXiv:2009.14794). The maximum only steadies the exponent and is left out.
    """

    component: ClassVar[str] = "recurrence"
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
            return (elementwise("elu", prod(x), 2, back=1, saved=1),)  # adding 1 passes the gradient on
        out, vectors = prod(self.shape(x)), prod(x[:-1])
        operands: list[tuple[Number, int | str]] = [(prod(x), 0), (self.features * x[-1], "projection")]
        product = contraction("matmul", 2 * prod(x) * self.features, operands, out)
        product = replace(product, backward=product.backward[:1])  # the projection is stored, not trained
        to_x = Part("d_0", OpClass.ELEMENTWISE, prod(x), prod(x) + vectors, prod(x), wrt=0)
        norm = Part("square_norm", OpClass.NORMALIZATION, 2 * prod(x), prod(x), vectors, (to_x,))
        # subtract, exp, scale; the subtraction passes the gradient on, to the norm its sum over the features
        grown = replace(elementwise("exp", out, 3, back=2, saved=1), read=out + vectors)
        grown = replace(grown, backward=(*grown.backward, summed(0, out, vectors)))
        return (elementwise("scale", prod(x)), product, norm, grown)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        if self.kernel == "elu":
            return torch.nn.functional.elu(x) + 1
        x = x * x.shape[-1] ** -0.25
        exponent = x @ weights["projection"].t() - x.square().sum(-1, keepdim=True) / 2
        return exponent.exp() * self.features**-0.5


@dataclass(frozen=True, slots=True, eq=False)
class LinearAttend(Op):
    """out_i = q_i^T S_i / q_i^T z_i with S_i = sum_j k_j v_j^T and z_i = sum_j k_j over j <= i.

    Over all j where it is not causal. Inputs q, k [B, T, H, m], v [B, T, H, e], then the cached S [B, H, m,
    e] and z [B, H, m] if there are any. Outputs [B, T, H, e], and with `keep` the new S and z.
    """

    component: ClassVar[str] = "recurrence"
    name: str
    causal: bool
    keep: bool

    def shape(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> Any:
        out = (*q[:3], v[3])
        batch, _, heads, m = k
        return (out, (batch, heads, m, v[3]), (batch, heads, m)) if self.keep else (out,)

    def states(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> tuple[State, ...]:
        _, *kept = self.shape(q, k, v)
        return tuple(State(prod(shape), StateKind.FIXED) for shape in kept)

    def parts(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> tuple[Part, ...]:
        tokens, m, e = prod(q[:3]), q[3], v[3]
        totals = (
            prod(k) if self.causal else q[0] * q[2] * m
        )  # elements of all z: one per token, or one per sequence
        sums = totals * e
        update = contraction("state", 2 * tokens * m * e, [(prod(k), 1), (prod(v), 2)], sums)
        readout = contraction("readout", 2 * tokens * m * e, [(prod(q), 0), (sums, (1, 2))], tokens * e)
        cached = [prod(shape) for shape in state] or [0, 0]
        if self.causal:
            steps = [
                _running("accumulate", sums, cached[0], (1, 2)),
                _running("add_keys", totals, cached[1], (1,)),
            ]
        else:  # every key gets the gradient of z as it is
            steps = [Part("add_keys", OpClass.NORMALIZATION, prod(k), prod(k), totals)]
            steps += [Part("add_cached", OpClass.ELEMENTWISE, n, 2 * n, n) for n in cached if state]
        return (update, *steps, readout, self._normalizer(q, totals), _divide(tokens, e))

    def _normalizer(self, q: Shape, totals: Number) -> Part:
        """q . z of every token: a product and a sum.

        Backward a product each. One z for all tokens gets the sum over them, too.
        """
        n, tokens = prod(q), prod(q[:-1])
        to_q = Part("d_0", OpClass.ELEMENTWISE, n, tokens + totals, n, wrt=0)
        op_class, flops = (OpClass.ELEMENTWISE, n) if self.causal else (OpClass.NORMALIZATION, 2 * n)
        to_z = Part("d_1", op_class, flops, tokens + n, totals, wrt=1)
        return Part("normalizer", OpClass.NORMALIZATION, 2 * n, n + totals, tokens, (to_q, to_z))

    def workspace(self, width: int, q: Shape, k: Shape, v: Shape, *state: Shape) -> Workspace:
        """Bytes of the sums S and z, for every token where it is causal.

        At once live the terms and their sums, or the sums without and with the cached ones.
        """
        batch, tokens, heads, m = k
        sums = batch * (tokens if self.causal else 1) * heads * (m * v[3] + m) * width
        return Workspace(2 * sums, sums, 3 * sums)  # a running sum's gradient is turned around twice

    def run(self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, *state: Any) -> Any:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out, outer, total = (self._causal if self.causal else self._full)(torch, q, k, v, *state)
        return (out.transpose(1, 2), outer, total) if self.keep else (out.transpose(1, 2),)

    def _causal(self, torch: Any, q: Any, k: Any, v: Any, *state: Any) -> Any:
        """Running sums: one outer product per token, so that the work grows with T alone."""
        outer = (k.unsqueeze(-1) @ v.unsqueeze(-2)).cumsum(2)
        total = k.cumsum(2)
        if state:
            outer, total = outer + state[0].unsqueeze(2), total + state[1].unsqueeze(2)
        mixed = (q.unsqueeze(-2) @ outer).squeeze(-2) / (q * total).sum(-1, keepdim=True)
        # copies, as views would keep the sums up to every token alive
        return mixed, outer[:, :, -1].clone(), total[:, :, -1].clone()

    def _full(self, torch: Any, q: Any, k: Any, v: Any, *state: Any) -> Any:
        outer, total = k.transpose(-1, -2) @ v, k.sum(2)
        if state:
            outer, total = outer + state[0], total + state[1]
        return (q @ outer) / (q * total.unsqueeze(2)).sum(-1, keepdim=True), outer, total


def _running(name: str, elements: Number, cached: Number, wrt: tuple[int, ...]) -> Part:
    """Cumulative sums from the cached ones; the gradient of a term is a reverse cumulative sum."""
    back = Part("d_1", OpClass.ELEMENTWISE, elements, elements, elements, wrt=wrt, scans=True)
    return Part(name, OpClass.ELEMENTWISE, elements, elements + cached, elements, (back,), scans=True)


def _divide(tokens: Number, e: Number) -> Part:
    """The division of the mix by the normalizer.

    Backward: g / normalizer for the mix, -sum(g * out) / normalizer for the normalizer.
    """
    n = tokens * e
    to_mix = Part("d_0", OpClass.ELEMENTWISE, n, n + tokens, n, wrt=(0, 1, 2))
    to_norm = Part("d_1", OpClass.NORMALIZATION, 2 * n, 2 * n + tokens, tokens, wrt=(0, 1))
    return Part("divide", OpClass.ELEMENTWISE, n, n + tokens, n, (to_mix, to_norm))
