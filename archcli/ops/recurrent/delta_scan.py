"""DeltaScan: a matrix of state per head that decays and learns each token's value by the delta rule.

B batch, T new tokens, K heads of keys and queries, H heads of values, d width of a key, e of a value, Q
chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from archcli.arith import Number, Shape
from archcli.graph import Op, Part, State, StateKind, Workspace
from archcli.ops.recurrent import delta_cost
from archcli.ops.recurrent.chunks import Form, block_pairs, by_head, chunk_count, steps


@dataclass(frozen=True, slots=True, eq=False)
class DeltaScan(Op):
    """S_t = (1 - b_t k_t k_t^T) a_t S_(t-1) + b_t k_t v_t^T and y_t = S_t^T q_t, for each head of values.

    Inputs q and k [B, T, K, d], v [B, T, H, e], log a [B, T, H] or for each channel of the key [B, T, H, d],
    b [B, T, H], then the cached S [B, H, d, e] if there is one; H / K heads of values share a q and k.
    Outputs y [B, T, H, e], and with `keep` the new S.

    Gated DeltaNet, arXiv:2412.06464; with channels KDA, arXiv:2510.26692. The chunked form solves the chunk's
    corrections of each other (UT transform, arXiv:2406.06484 section 3) and passes one state from chunk to
    chunk: with A = strictly lower b k k^T a_i/a_j and M = (1 + A)^-1,

        U = M b v - (M b k a_i) S,  y = q a_i S + lower(q k^T a_i/a_j) U,  S' = a_Q S + (k a_Q/a_j)^T U

    Quotients of decays are exponentials of differences, which are never above 0.
    """

    component: ClassVar[str] = "recurrence"
    has_unread: ClassVar[bool] = True
    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "delta rule"
    name: str
    chunk: Number
    form: Form
    keep: bool

    def shape(self, q: Shape, k: Shape, v: Shape, *rest: Shape) -> Any:
        return (v, (v[0], v[2], q[3], v[3])) if self.keep else (v,)

    def states(self, q: Shape, k: Shape, v: Shape, *rest: Shape) -> tuple[State, ...]:
        return (State(v[0] * v[2] * q[3] * v[3], StateKind.FIXED),) if self.keep else ()

    def parts(
        self, q: Shape, k: Shape, v: Shape, decay: Shape, beta: Shape, *state: Shape
    ) -> tuple[Part, ...]:
        per_channel = len(decay) > len(beta)
        sizes = delta_cost.sizes(q, v, self.chunk, per_channel=per_channel)
        return (delta_cost.by_token if self.form == "recurrent" else delta_cost.by_chunk)(sizes)

    def workspace(
        self, width: int, q: Shape, k: Shape, v: Shape, decay: Shape, beta: Shape, *state: Shape
    ) -> Workspace:
        """Bytes of copies in fp32, of a chunk's matrices and of states.

        With decays by channel a chunk has a key for each pair of tokens.
        """
        wide, heads, channels = max(width, 4), v[0] * v[2], q[3] if len(decay) > len(beta) else 0
        rows, states = wide * v[1] * heads, wide * heads * q[3] * v[3]
        chunks, blocks = chunk_count(v[1], self.chunk), wide * heads * block_pairs(v[1], self.chunk)
        of_chunk = blocks // chunks * (6 + 3 * channels) + 3 * states
        return Workspace(rows * v[3] + of_chunk, rows * (4 * q[3] + 3 * v[3]) + 2 * of_chunk)

    def run(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, decay: Any, beta: Any, *state: Any
    ) -> Any:
        batch, tokens, heads, _ = v.shape
        if q.shape[2] != heads:
            q, k = (x.repeat_interleave(heads // x.shape[2], 2) for x in (q, k))
        *pieces, decay, beta = (by_head(torch, x) for x in (q, k, v, decay, beta))
        pieces += [decay if decay.dim() > beta.dim() else decay.unsqueeze(-1), beta.unsqueeze(-1)]
        size = (batch * heads, q.shape[3], v.shape[3])
        before = state[0].to(pieces[0].dtype).flatten(0, 1) if state else pieces[0].new_zeros(size)
        advance: Any
        by_token = steps(self.form, tokens, started=bool(state))
        # one mask for all chunks: the last, shorter one takes its corner
        later = torch.ones((min(self.chunk, tokens),) * 2, dtype=torch.bool, device=v.device).triu(1)
        chunk, advance = (1, _step) if by_token else (self.chunk, partial(_chunk, torch, later))
        out: list[Any] = []
        for piece in zip(*(x.split(chunk, 1) for x in pieces), strict=True):
            y, before = advance(piece, before)
            out.append(y)
        y = torch.cat(out, 1).unflatten(0, (batch, heads)).transpose(1, 2).to(v.dtype).contiguous()
        return (y, before.unflatten(0, (batch, heads))) if self.keep else (y,)


def _chunk(torch: Any, later: Any, piece: Any, state: Any) -> tuple[Any, Any]:
    """Outputs of one chunk, and the state after it; q, k, v, log a and b [B H, tokens, …]."""
    q, k, v, decay, beta = piece
    total, weighted = decay.cumsum(1), k * beta
    later = later[: q.shape[1], : q.shape[1]]
    pairs = partial(_channel_pairs, torch) if total.shape[-1] > 1 else _head_pairs
    overlap, scores = pairs(q, k, weighted, total, later)
    unit = torch.eye(q.shape[1], dtype=q.dtype, device=q.device).expand_as(overlap)
    # unitriangular: the diagonal of `overlap` is not read, so that it need not become that of 1 + A
    solved = torch.linalg.solve_triangular(overlap, unit, upper=False, unitriangular=True)
    grown, whole = total.exp(), total[:, -1:]
    corrected = solved @ (v * beta) - (solved @ (weighted * grown)) @ state
    y = (q * grown) @ state + scores @ corrected
    added = (k * (whole - total).exp()).transpose(-1, -2) @ corrected
    return y, state * whole.exp().transpose(-1, -2) + added


def _head_pairs(q: Any, k: Any, weighted: Any, total: Any, later: Any) -> tuple[Any, Any]:
    """b k k^T and q k^T of the pairs of a chunk, decayed by head; 0 for later keys."""
    # masked before exp: the differences of later tokens are above 0, and would overflow
    quotients = (total - total.transpose(-1, -2)).masked_fill(later, float("-inf")).exp()
    keys = k.transpose(-1, -2)
    return (weighted @ keys) * quotients, (q @ keys) * quotients


def _channel_pairs(torch: Any, q: Any, k: Any, weighted: Any, total: Any, later: Any) -> tuple[Any, Any]:
    """b k k^T and q k^T decayed by channel: each token reads the keys as they have decayed by then."""
    differences = total.unsqueeze(-2) - total.unsqueeze(-3)
    keys = differences.masked_fill(later.unsqueeze(-1), float("-inf")).exp() * k.unsqueeze(-3)
    overlap, scores = (torch.stack([weighted, q], -2) @ keys.transpose(-1, -2)).unbind(-2)
    return overlap, scores


def _step(piece: Any, state: Any) -> tuple[Any, Any]:
    """The output of one token, and the state after it."""
    q, k, v, decay, beta = piece
    state = state * decay.exp().transpose(-1, -2)
    corrected = (v - k @ state) * beta
    state = state + k.transpose(-1, -2) @ corrected
    return q @ state, state
