"""Ops of linear attention: feature maps of queries and keys, and attention by running sums.

B batch, T new tokens, H heads, d head_dim, m features, e head_dim of values, Q chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, prod
from archcli.graph import MaskTrait, Op, OpClass, Part, State, StateKind, Traits, Workspace
from archcli.ops.attention.mask import Bidirectional, Causal
from archcli.ops.base import contraction, elementwise, summed
from archcli.ops.recurrent.chunks import (
    Form,
    after_first,
    before_last,
    block_pairs,
    causal_pairs,
    chunk_count,
    reached,
    steps,
)

Kernel = Literal["elu", "softmax"]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap(Op):
    """phi(x) >= 0, the feature map of a kernel: x [B, T, H, d] to [B, T, H, m].

    elu(x) + 1 (arXiv:2006.16236), or exp(w x' - |x'|^2 / 2 - max) / sqrt(m) with x' = x / d^(1/4) and stored
    random w [m, d] (arXiv:2009.14794). The maximum only steadies the exponent and is left out.
    """

    sign: ClassVar[str] = "features"
    follows_run: ClassVar[bool] = True
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

    Chunked, causal attention computes the pairs within chunks of Q tokens as scores, and carries one S and z
    from chunk to chunk (arXiv:2006.16236 section 3.2 in blocks); recurrent, it has an S and z per token.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "linear attention"
    slots: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    component: ClassVar[str] = "recurrence"
    has_unread: ClassVar[bool] = True
    name: str
    causal: bool
    keep: bool
    chunk: Number = 64
    form: Form = "auto"

    def shape(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> Any:
        out = (*q[:3], v[3])
        batch, _, heads, m = k
        return (out, (batch, heads, m, v[3]), (batch, heads, m)) if self.keep else (out,)

    def states(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> tuple[State, ...]:
        _, *kept = self.shape(q, k, v)
        return tuple(State(prod(shape), StateKind.FIXED) for shape in kept)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(mask=MaskTrait("causal" if self.causal else "bidirectional"))

    def seen(self) -> tuple[tuple[bool, ...], ...]:
        return (Causal() if self.causal else Bidirectional()).example()

    def parts(self, q: Shape, k: Shape, v: Shape, *state: Shape) -> tuple[Part, ...]:
        cached = sum((prod(shape) for shape in state), 0)
        if not self.causal:
            return self._all(q, v, cached)
        within = () if self.form == "recurrent" else self._within(q, v)
        return (*within, *self._carried(q, v, cached), _divide(prod(v[:3]), v[3]))

    def _within(self, q: Shape, v: Shape) -> tuple[Part, ...]:
        """Scores of the pairs within chunks, their sums, and their mix, added to that of earlier chunks."""
        pairs, blocks = (q[0] * q[2] * count(q[1], self.chunk) for count in (causal_pairs, block_pairs))
        keys, n, rows = prod(q), prod(v), prod(q[:3])
        scores = contraction(
            "scores", 2 * q[3] * pairs, [(keys, 0), (keys, 1)], blocks, executed=2 * q[3] * blocks
        )
        mix = contraction("mix", 2 * v[3] * pairs, [(blocks, (0, 1)), (n, 2)], n, executed=2 * v[3] * blocks)
        total = Part("add_scores", OpClass.NORMALIZATION, pairs, blocks, rows, executed=blocks)
        return (scores, total, mix, Part("add", OpClass.ELEMENTWISE, n + rows, 2 * (n + rows), n + rows))

    def _carried(self, q: Shape, v: Shape, cached: Number) -> tuple[Part, ...]:
        """The carried sums, one per chunk or per token, and the products of queries with them."""
        keys, carries = prod(q), q[0] * self._carries(q[1]) * q[2]
        totals, sums = carries * q[3], carries * q[3] * v[3]
        running = _running("accumulate", sums + totals, cached)
        state, readout, normalizer = _products(q, v, totals)
        if self.form == "recurrent":
            return (state, running, readout, normalizer)
        # no token reads the last sums, and the first are given
        writes, read = (q[0] * q[2] * count(q[1], self.chunk) for count in (before_last, after_first))
        return (
            reached(state, 2 * writes * q[3] * v[3], 0, 1),
            Part("add_keys", OpClass.NORMALIZATION, keys, keys, totals),
            running,
            reached(readout, 2 * read * q[3] * v[3], 1),
            reached(normalizer, 2 * read * q[3], 1),
        )

    def _carries(self, tokens: Number) -> Number:
        return tokens if self.form == "recurrent" else chunk_count(tokens, self.chunk)

    def _all(self, q: Shape, v: Shape, cached: Number) -> tuple[Part, ...]:
        """Sums over all tokens, to which cached ones are added; every key gets the gradient of z as it is."""
        keys, totals = prod(q), q[0] * q[2] * q[3]
        add = (Part("add_cached", OpClass.ELEMENTWISE, cached, 2 * cached, cached),) if cached else ()
        state, readout, normalizer = _products(q, v, totals)
        add_keys = Part("add_keys", OpClass.NORMALIZATION, keys, keys, totals)
        return (state, add_keys, *add, readout, normalizer, _divide(prod(q[:3]), v[3]))

    def workspace(self, width: int, q: Shape, k: Shape, v: Shape, *state: Shape) -> Workspace:
        """Bytes of the sums S and z, of the scores of a chunk, and of the result before it is put together.

        The backward takes as much beside what it kept: the sums and scores of all chunks, or of all tokens.
        """
        n, sums = prod(v), q[0] * q[2] * q[3] * (v[3] + 1)
        if not self.causal:
            return Workspace(2 * width * sums, 3 * width * sums)
        carries = self._carries(q[1])
        blocks = 0 if self.form == "recurrent" else q[0] * q[2] * block_pairs(q[1], self.chunk)
        running = width * (2 * n + 3 * sums + 3 * (blocks // carries))
        return Workspace(running, running)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, *state: Any) -> Any:
        q, k, v = _by_head(q), _by_head(k), _by_head(v)
        size = (q.shape[0], q.shape[1], q.shape[3])
        before = (v.new_zeros(*size, v.shape[3]), v.new_zeros(*size, 1))
        if state:
            before = (state[0], state[1].unsqueeze(-1))
        if self.causal:
            by_token = steps(self.form, q.shape[2], started=bool(state))
            advance: Any
            chunk, advance = (1, _step) if by_token else (self.chunk, _chunk)
            pieces = zip(*(x.split(chunk, 2) for x in (q, k, v)), strict=True)
            out, outer, total = _in_turn(torch, advance, pieces, before)
        else:
            out, outer, total = _over_all(q, k, v, *before)
        return (out.transpose(1, 2), outer, total.squeeze(-1)) if self.keep else (out.transpose(1, 2),)


def _by_head(x: Any) -> Any:
    """[B, T, H, d] to [B, H, T, d], sequences and heads one axis in memory: products copy no piece of it."""
    x = x.transpose(1, 2)
    return x if x.shape[0] == 1 or x.shape[1] == 1 else x.contiguous()


def _in_turn(torch: Any, advance: Any, pieces: Any, sums: Any) -> tuple[Any, Any, Any]:
    """Chunk after chunk, or token after token, so that no sums but the last are held."""
    out = []
    for piece in pieces:
        mixed, *sums = advance(*piece, *sums)
        out.append(mixed)
    return torch.cat(out, 2), *sums


def _chunk(q: Any, k: Any, v: Any, outer: Any, total: Any) -> tuple[Any, Any, Any]:
    """The result of a chunk, and the sums after it; [B, H, tokens, …], total [B, H, m, 1]."""
    scores = (q @ k.transpose(-1, -2)).tril()
    mixed = (scores @ v + q @ outer) / (scores.sum(-1, keepdim=True) + q @ total)
    return mixed, outer + k.transpose(-1, -2) @ v, total + k.sum(2).unsqueeze(-1)


def _step(q: Any, k: Any, v: Any, outer: Any, total: Any) -> tuple[Any, Any, Any]:
    """The result of one token, and the sums after it."""
    outer, total = outer + k.transpose(-1, -2) @ v, total + k.transpose(-1, -2)
    return (q @ outer) / (q @ total), outer, total


def _over_all(q: Any, k: Any, v: Any, outer: Any, total: Any) -> tuple[Any, Any, Any]:
    """The result of all tokens, each of which sees every other; and the sums, added to cached ones."""
    outer, total = k.transpose(-1, -2) @ v + outer, k.sum(2).unsqueeze(-1) + total
    return (q @ outer) / (q @ total), outer, total


def _products(q: Shape, v: Shape, totals: Number) -> tuple[Part, Part, Part]:
    """k v^T of all tokens; q S; q z. `totals` are the elements of all z."""
    keys, n, sums = prod(q), prod(v), totals * v[3]
    return (
        contraction("state", 2 * n * q[3], [(keys, 1), (n, 2)], sums),
        contraction("readout", 2 * n * q[3], [(keys, 0), (sums, (1, 2))], n),
        contraction("normalizer", 2 * keys, [(keys, 0), (totals, 1)], prod(q[:3])),
    )


def _running(name: str, elements: Number, cached: Number) -> Part:
    """Running sums from the cached ones on; a term's gradient sums those of all later sums."""
    back = Part("d_1", OpClass.ELEMENTWISE, elements, elements, elements, wrt=(1, 2))
    return Part(name, OpClass.ELEMENTWISE, elements, elements + cached, elements, (back,))


def _divide(tokens: Number, e: Number) -> Part:
    """The division of the mix by the normalizer.

    Backward: g / normalizer for the mix, -sum(g * out) / normalizer for the normalizer.
    """
    n = tokens * e
    to_mix = Part("d_0", OpClass.ELEMENTWISE, n, n + tokens, n, wrt=(0, 1, 2))
    to_norm = Part("d_1", OpClass.NORMALIZATION, 2 * n, 2 * n + tokens, tokens, wrt=(0, 1))
    return Part("divide", OpClass.ELEMENTWISE, n, n + tokens, n, (to_mix, to_norm))
