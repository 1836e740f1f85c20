"""StateScan: a matrix of state per head, which decays and takes in k v^T of every token.

B batch, T new tokens, G groups of keys and queries, H heads, N state (width of a key), P head_dim (width of a
value), Q chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from archcli.arith import Number, Shape, is_one, maximum, minimum, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Workspace
from archcli.ops.base import contraction
from archcli.ops.recurrent.chunks import (
    Form,
    after_first,
    before_last,
    block_pairs,
    by_head,
    causal_pairs,
    chunk_count,
    reached,
    steps,
)


@dataclass(frozen=True, slots=True, eq=False)
class StateScan(Op):
    """S_t = a_t S_(t-1) + k_t v_t^T and y_t = S_t^T q_t, for each head.

    Inputs q and k [B, T, G, N], v [B, T, H, P], log a [B, T, H], then the cached S [B, H, N, P] if there is
    one; the H / G heads of a group share its q and k. Outputs y [B, T, H, P], and with `keep` the new S.

    It is the scan of Mamba-2 (SSD, arXiv:2405.21060), with constant decays that of lightning attention and
    RetNet. The chunked form computes the pairs within chunks of Q tokens as attention does, and passes one
    state from chunk to chunk; the recurrent form has one state per token.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "scan"
    component: ClassVar[str] = "recurrence"
    has_unread: ClassVar[bool] = True
    name: str
    chunk: Number
    form: Form
    keep: bool

    def shape(self, q: Shape, k: Shape, v: Shape, decay: Shape, *state: Shape) -> Any:
        return (v, (v[0], v[2], q[3], v[3])) if self.keep else (v,)

    def states(self, q: Shape, k: Shape, v: Shape, decay: Shape, *state: Shape) -> tuple[State, ...]:
        return (State(v[0] * v[2] * q[3] * v[3], StateKind.FIXED),) if self.keep else ()

    def parts(self, q: Shape, k: Shape, v: Shape, decay: Shape, *state: Shape) -> tuple[Part, ...]:
        return (self._steps if self.form == "recurrent" else self._chunks)(q, v)

    def _chunks(self, q: Shape, v: Shape) -> tuple[Part, ...]:
        """Parts of the chunked form: q, k, v and a are read once, y and a state per chunk written."""
        batch, tokens, heads, _ = v
        n, keys, rows = prod(v), prod(q), prod(v[:3])
        pairs, blocks = (batch * count(tokens, self.chunk) for count in (causal_pairs, block_pairs))
        sums = batch * chunk_count(tokens, self.chunk) * heads * q[3] * v[3]
        scores = _product("scores", q[2] * q[3], pairs, blocks, [(keys, 0), (keys, 1)], q[2] * blocks)
        mix = _product("mix", heads * v[3], pairs, blocks, [(heads * blocks, (0, 1, 3)), (n, 2)], n)
        per_token = 2 * batch * heads * v[3] * q[3]
        state = contraction("state", per_token * tokens, [(keys, 1), (n, (2, 3))], sums)
        # the last chunk's state is read by no token
        state = reached(state, per_token * before_last(tokens, self.chunk), 0, 1)
        readout = contraction("readout", per_token * tokens, [(keys, 0), (sums, (1, 2, 3))], n)
        readout = reached(readout, per_token * after_first(tokens, self.chunk), 1)
        return (
            replace(scores, read=2 * keys, written=0),
            *_segment_decay(q[2], heads, pairs, blocks, rows),
            replace(mix, read=n, written=0),
            _decayed("decay_values", n, rows, n + 2 * rows, 2),
            replace(state, read=0, written=sums),
            _passed(sums),
            replace(readout, read=0, written=0),
            replace(_decayed("add_readout", n, rows, 2 * n + rows, (0, 1, 2)), written=n),
        )

    def _steps(self, q: Shape, v: Shape) -> tuple[Part, ...]:
        """Parts of the recurrent form: the state is read and written with every token."""
        n, keys = prod(v), prod(q)
        sums = n * q[3]
        update = contraction("state", 2 * sums, [(keys, 1), (n, 2)], sums)
        readout = contraction("readout", 2 * sums, [(keys, 0), (sums, (1, 2, 3))], n)
        return (
            replace(update, read=keys + n, written=sums),
            replace(_passed(sums), flops=sums, read=sums + prod(v[:3])),
            replace(readout, read=keys, written=n),
        )

    def workspace(self, width: int, q: Shape, k: Shape, v: Shape, *rest: Shape) -> Workspace:
        """Bytes of copies in fp32, and of a chunk's scores or states; at the end, of the result in pieces."""
        wide, heads, chunk = max(width, 4), v[0] * v[2], minimum(v[1], self.chunk)
        state = wide * heads * q[3] * v[3]
        if rest[1:] and is_one(v[1]):
            return Workspace(self._decoding(width, q, v) + state)
        copies = sum(wide * prod(x) for x in (q, k, v) if width < wide or not any(map(is_one, x[:3])))
        copies = copies + (0 if is_one(q[0]) or is_one(q[2]) else wide * prod(v[:3]))
        blocks, scores = wide * heads * chunk * chunk, wide * q[0] * q[2] * chunk * chunk
        piece = wide * heads * chunk * v[3]
        within = 2 * blocks + maximum(scores, piece)
        of_chunk = wide * heads * chunk + maximum(within, 4 * piece + 2 * state)
        before = piece * (maximum(v[1] // self.chunk, 1) - 1)
        most = maximum(before + of_chunk, 2 * wide * prod(v))
        output = width * prod(v) + (state if self.keep else 0)
        pairs, chunks = block_pairs(v[1], self.chunk), chunk_count(v[1], self.chunk)
        kept = copies + 2 * wide * (heads * pairs + prod(v)) + state * chunks
        return Workspace(copies + state + chunk * chunk + most - output, 2 * kept)

    def _decoding(self, width: int, q: Shape, v: Shape) -> Number:
        """Bytes that decoding a token takes beside the state: q, k, v in fp32, and keys for every head."""
        wide, is_one_group = max(width, 4), is_one(q[0]) and is_one(q[2])
        repeated = not (q[2] is v[2] or q[2] == v[2] or is_one_group)
        keys = wide * v[0] * v[2] * q[3] if repeated else 0
        return keys + (wide * (2 * prod(q) + prod(v)) if width < wide else 0) - width * prod(v)

    def run(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, decay: Any, *state: Any
    ) -> Any:
        by_token = steps(self.form, v.shape[1], started=bool(state))
        advance = _by_token if by_token else partial(_by_chunk, chunk=self.chunk)
        y, after = advance(torch, q, k, v, decay, *state)
        y = y.flatten(2, 3).to(v.dtype).contiguous()
        return (y, after.flatten(1, 2)) if self.keep else (y,)


def _by_chunk(torch: Any, q: Any, k: Any, v: Any, decay: Any, *state: Any, chunk: int) -> tuple[Any, Any]:
    """Outputs [B, T, G, H / G, P] and the state after them [B, G, H / G, N, P], chunk by chunk.

    The states of a group lie side by side, [B G, N, (H / G) P], so that its q and k are not repeated.
    """
    batch, tokens, groups, width = q.shape
    of_group = (batch * groups, -1)
    q, k, values = (by_head(torch, x) for x in (q, k, v))
    decay = decay.to(values.dtype).transpose(1, 2).reshape(*of_group, tokens)
    size = (batch, groups, -1, width, v.shape[3])
    if state:
        before = state[0].to(values.dtype).view(size).flatten(0, 1).transpose(1, 2)
    else:
        before = values.new_zeros(batch * groups, width, decay.shape[1], v.shape[3])
    later = torch.ones((min(chunk, tokens),) * 2, dtype=torch.bool, device=v.device).triu(1)
    pieces = (q.split(chunk, 1), k.split(chunk, 1), values.split(chunk, 1), decay.split(chunk, 2))
    out = []
    for piece in zip(*pieces, strict=True):
        y, before = _chunk(torch, *piece, before, later)
        out.append(y)
    y = torch.cat(out, 1).unflatten(0, (batch, groups)).transpose(1, 2)
    return y, before.unflatten(0, (batch, groups)).transpose(2, 3)


def _chunk(torch: Any, q: Any, k: Any, v: Any, decay: Any, state: Any, later: Any) -> tuple[Any, Any]:
    """Outputs [B G, Q, H / G, P] of one chunk, and the state after it [B G, N, H / G, P].

    q and k [B G, Q, N], v [B H, Q, P], log a [B G, H / G, Q].
    """
    total = decay.cumsum(-1)
    within = _within(torch, q, k, v, total, later)
    before = torch.bmm(q, state.flatten(2)).unflatten(2, state.shape[2:])
    before = before * total.exp().transpose(1, 2).unsqueeze(-1)
    whole = total[..., -1:]
    added = v.unflatten(0, total.shape[:2]) * (whole - total).exp().unsqueeze(-1)
    decayed = state * whole.exp().unsqueeze(1)
    added = added.transpose(1, 2).flatten(2)
    after = torch.baddbmm(decayed.flatten(2), k.transpose(1, 2), added)
    return within.transpose(1, 2) + before, after.view(state.shape)


def _within(torch: Any, q: Any, k: Any, v: Any, total: Any, later: Any) -> Any:
    """The outputs of a chunk's tokens from the chunk itself; its scores are freed on return."""
    later = later[: q.shape[1], : q.shape[1]]
    # masked before exp: the differences of later tokens are above 0, and would overflow
    segments = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, float("-inf")).exp()
    scores = torch.bmm(q, k.transpose(1, 2)).unsqueeze(1) * segments
    return torch.bmm(scores.flatten(0, 1), v).unflatten(0, total.shape[:2])


def _by_token(torch: Any, q: Any, k: Any, v: Any, decay: Any, *state: Any) -> tuple[Any, Any]:
    """Outputs and state as of `_by_chunk`, token by token."""
    wide = torch.promote_types(v.dtype, torch.float32)
    groups = (q.shape[2], -1)
    q, k = (x.to(wide).transpose(1, 2).unsqueeze(2) for x in (q, k))
    values = v.to(wide).unflatten(2, groups).permute(0, 2, 3, 1, 4)
    decay = decay.to(wide).unflatten(2, groups).permute(0, 2, 3, 1)
    size = (*values.shape[:3], q.shape[-1], v.shape[-1])
    before = state[0].to(wide).view(size) if state else values.new_zeros(size)
    pieces = zip(*(x.split(1, 3) for x in (q, k, values, decay)), strict=True)
    out = []
    for q_t, k_t, v_t, decay_t in pieces:
        y, before = _step(torch, q_t, k_t, v_t, decay_t, before)
        out.append(y)
    return torch.cat(out, 3).permute(0, 3, 1, 2, 4), before


def _step(torch: Any, q: Any, k: Any, v: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """The output of one token, and the state after it."""
    state = _add_products(torch, state * decay.exp().unsqueeze(-1), k, v)
    return _to_heads(q, state) @ state, state


def _add_products(torch: Any, state: Any, k: Any, v: Any) -> Any:
    """The state [B, G, H / G, N, P] plus k v^T."""
    keys = _to_heads(k, state).transpose(-1, -2)
    sums = torch.baddbmm(state.flatten(0, 2), keys.flatten(0, 2), v.flatten(0, 2))
    return sums.view(state.shape)


def _to_heads(x: Any, state: Any) -> Any:
    """Queries or keys of a group [B, G, 1, …] for each of its heads: a view."""
    return x.expand(*state.shape[:3], -1, -1)


def _product(
    name: str,
    width: Number,
    pairs: Number,
    blocks: Number,
    operands: list[tuple[Number, int | tuple[int, ...]]],
    out: Number,
) -> Part:
    """A contraction of `width` multiply-adds for each pair of tokens."""
    return contraction(name, 2 * width * pairs, operands, out, executed=2 * width * blocks)


def _segment_decay(
    groups: Number, heads: Number, pairs: Number, blocks: Number, rows: Number
) -> tuple[Part, ...]:
    """Cumulative log decays, and each score times exp(the difference): subtract, exp, multiply.

    Backward: the product's other operand for the scores, summed over the heads of a group; for log a the
    product with the result, summed along both tokens.
    """
    of_heads = heads * pairs
    to_scores = Part(
        "d_scores",
        OpClass.ELEMENTWISE,
        2 * of_heads - groups * pairs,
        2 * heads * blocks,
        groups * blocks,
        wrt=(0, 1),
    )
    to_decay = Part("d_3", OpClass.NORMALIZATION, 3 * of_heads, 2 * heads * blocks, rows, wrt=3)
    gathered = Part("d_3", OpClass.ELEMENTWISE, rows, rows, rows, wrt=3, scans=True)
    return (
        Part("accumulate", OpClass.ELEMENTWISE, rows, rows, 0, (gathered,), scans=True),
        Part(
            "segment_decay",
            OpClass.ELEMENTWISE,
            3 * of_heads,
            0,
            0,
            (to_scores, to_decay),
            executed=3 * heads * blocks,
        ),
    )


def _decayed(name: str, n: Number, rows: Number, flops: Number, wrt: int | tuple[int, ...]) -> Part:
    """n elements times exp(a sum of log decays); there are `rows` sums."""
    backward = (
        Part("d_values", OpClass.ELEMENTWISE, n, n + rows, n, wrt=wrt),
        Part("d_3", OpClass.NORMALIZATION, 2 * n, 2 * n, rows, wrt=3),
    )
    return Part(name, OpClass.ELEMENTWISE, flops, 0, 0, backward)


def _passed(sums: Number) -> Part:
    """States that decay, plus new terms; the gradient does the same backwards in time."""
    backward = (
        Part("d_state", OpClass.ELEMENTWISE, 2 * sums, 2 * sums, sums, wrt=(1, 2, 3)),
        Part("d_3", OpClass.NORMALIZATION, 2 * sums, 2 * sums, 0, wrt=3),
    )
    return Part("passing", OpClass.ELEMENTWISE, 2 * sums, 0, 0, backward)
