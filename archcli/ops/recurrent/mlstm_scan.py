"""MLSTMScan: the matrix memory of an xLSTM, with exponential input gates and a normalizer.

B batch, T new tokens, H heads, N width of a key, P width of a value, Q chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Workspace
from archcli.ops.base import contraction, elementwise
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

Q, K, V, INPUT, FORGET = range(5)
GATES = (INPUT, FORGET)
"""Indices of the operation's inputs."""


@dataclass(frozen=True, slots=True, eq=False)
class MLSTMScan(Op):
    """C_t = f_t C_(t-1) + i_t k_t v_t^T, n_t = f_t n_(t-1) + i_t k_t, y_t = C_t^T q_t / max(|n_t q_t|, 1).

    With i_t = exp(i) and f_t = sigmoid(f), both divided by exp(m_t), m_t = max(log f_t + m_(t-1), i), so that
    no number grows beyond bounds; eps is added to the divisor. Beck et al. 2024, arXiv:2405.04517 equations
    19 to 27; chunked as in xLSTM-7B, arXiv:2503.13427.

    Inputs q and k [B, T, H, N], v [B, T, H, P], i and f [B, T, H], then the cached C [B, H, N, P], n [B, H,
    N] and m [B, H] if there are any. Outputs y [B, T, H, P], and with `keep` the new C, n and m. The gradient
    takes m for a constant, on which the result depends through eps alone.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "matrix memory"
    component: ClassVar[str] = "recurrence"
    has_unread: ClassVar[bool] = True
    name: str
    chunk: Number
    form: Form
    keep: bool
    eps: float = 1e-6

    def shape(self, q: Shape, k: Shape, v: Shape, i: Shape, f: Shape, *state: Shape) -> Any:
        heads = (v[0], v[2])
        return (v, (*heads, q[3], v[3]), (*heads, q[3]), heads) if self.keep else (v,)

    def states(self, q: Shape, k: Shape, v: Shape, *rest: Shape) -> tuple[State, ...]:
        _, *kept = self.shape(q, k, v, *rest)
        return tuple(State(prod(shape), StateKind.FIXED) for shape in kept)

    def parts(self, q: Shape, k: Shape, v: Shape, *rest: Shape) -> tuple[Part, ...]:
        stepwise, rows = self.form == "recurrent", prod(v[:3])
        return (
            elementwise("log_sigmoid", rows, saved=1),
            *(() if stepwise else self._within(q, v)),
            *(_stepwise(q, v) if stepwise else self._carried(q, v)),
            *_divided(prod(v), rows),
        )

    def _within(self, q: Shape, v: Shape) -> tuple[Part, ...]:
        """The pairs within chunks: scores times exp(log decay + i - m), their sums and their mix."""
        pairs, blocks = (v[0] * v[2] * count(v[1], self.chunk) for count in (causal_pairs, block_pairs))
        keys, n, rows = prod(q), prod(v), prod(v[:3])
        scores = contraction(
            "scores", 2 * q[3] * pairs, [(keys, Q), (keys, K)], blocks, executed=2 * q[3] * blocks
        )
        mix = contraction(
            "mix", 2 * v[3] * pairs, [(blocks, (Q, K, *GATES)), (n, V)], n, executed=2 * v[3] * blocks
        )
        to_scores = Part("d_scores", OpClass.ELEMENTWISE, pairs, 2 * blocks, blocks, wrt=(Q, K))
        to_gates = Part("d_gates", OpClass.NORMALIZATION, 3 * pairs, 2 * blocks, 2 * rows, wrt=GATES)
        summed_up = Part("d_4", OpClass.ELEMENTWISE, rows, rows, rows, wrt=FORGET, scans=True)
        return (
            Part("accumulate", OpClass.ELEMENTWISE, rows, rows, 0, (summed_up,), scans=True),
            replace(scores, read=2 * keys, written=0),
            # the difference of two sums of log decays, plus i, minus m, exp, times the score
            Part("gates", OpClass.ELEMENTWISE, 5 * pairs, 2 * rows, 0, (to_scores, to_gates), 5 * blocks),
            Part("add_scores", OpClass.NORMALIZATION, pairs, 0, 0, executed=blocks),
            replace(mix, read=n, written=0),
        )

    def _carried(self, q: Shape, v: Shape) -> tuple[Part, ...]:
        """C and n, one per chunk, and the products of queries with them."""
        keys, n, rows, carries = prod(q), prod(v), prod(v[:3]), v[0] * v[2] * chunk_count(v[1], self.chunk)
        gate_keys, state, readout, normalizer = _products(q, v, carries)
        # no token reads the last state, and the first is given
        writes, read = (v[0] * v[2] * count(v[1], self.chunk) for count in (before_last, after_first))
        state = reached(state, 2 * writes * q[3] * v[3], 0, 1)
        readout, normalizer = (
            reached(part, 2 * read * q[3] * width, 1) for part, width in ((readout, v[3]), (normalizer, 1))
        )
        states = carries * q[3] * (v[3] + 1)
        return (
            replace(gate_keys, read=keys + 2 * rows),
            replace(state, read=0, written=states),
            Part("add_keys", OpClass.NORMALIZATION, keys, 0, 0),
            _passed(states, read=0),
            replace(readout, read=0, written=0),
            replace(normalizer, read=0, written=0),
            _weighed("add_readout", n + rows, rows, (Q, K, V, *GATES), added=1),
        )

    def workspace(self, width: int, q: Shape, k: Shape, v: Shape, *rest: Shape) -> Workspace:
        """Bytes of copies in fp32, of the scores of a chunk, and of states."""
        wide = max(width, 4)
        copies = wide * 2 * prod(v) + (0 if width == wide else wide * (2 * prod(q) + prod(v)))
        state = wide * v[0] * v[2] * q[3] * (v[3] + 1)
        chunks = chunk_count(v[1], self.chunk)
        blocks = wide * v[0] * v[2] * block_pairs(v[1], self.chunk)
        running = copies + 4 * (blocks // chunks) + 3 * state
        return Workspace(running, running)

    def run(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, i: Any, f: Any, *state: Any
    ) -> Any:
        batch, dtype = v.shape[0], v.dtype
        q, k, v, i, f = (by_head(torch, x) for x in (q, k, v, i, f))
        heads = (q, k, v, i, -torch.nn.functional.softplus(-f))
        sizes = ((q.shape[2], v.shape[2]), (q.shape[2],), ())
        before = [x.to(q.dtype).flatten(0, 1) for x in state] or [
            q.new_zeros(q.shape[0], *size) for size in sizes
        ]
        carried = (before[0], before[1].unsqueeze(-1), before[2].unsqueeze(-1))
        by_token = steps(self.form, v.shape[1], started=bool(state))
        later = torch.ones((min(self.chunk, v.shape[1]),) * 2, dtype=torch.bool, device=v.device).triu(1)
        chunk, advance = (1, _step) if by_token else (self.chunk, partial(_chunk, later=later))
        out = []
        for piece in zip(*(x.split(chunk, 1) for x in heads), strict=True):
            mixed, divisor, carried = advance(torch, piece, carried)
            out.append(mixed / (divisor + self.eps))
        y = torch.cat(out, 1).unflatten(0, (batch, -1)).transpose(1, 2).to(dtype).contiguous()
        after = [
            x.unflatten(0, (batch, -1)) for x in (carried[0], carried[1].squeeze(-1), carried[2].squeeze(-1))
        ]
        return (y, *after) if self.keep else (y,)


def _chunk(torch: Any, heads: Any, before: Any, later: Any) -> tuple[Any, Any, Any]:
    """What a chunk mixes, its divisor without eps, and C, n and m after it.

    q, k, v, i and log f [B H, tokens, …]; C [B H, N, P], n [B H, N, 1], m [B H, 1].
    """
    (q, k, v, i, f), (state, keys, m) = heads, before
    total, tokens = f.cumsum(-1), q.shape[1]
    gates = total.unsqueeze(-1) - total.unsqueeze(-2) + i.unsqueeze(-2)
    gates = gates.masked_fill(later[:tokens, :tokens], float("-inf"))
    grown = total + m
    m = torch.maximum(grown.detach(), gates.detach().amax(-1))
    gates, decay = (gates - m.unsqueeze(-1)).exp(), (grown - m).exp().unsqueeze(-1)
    scores = (q @ k.transpose(-1, -2)) * gates
    mixed = scores @ v + (q @ state) * decay
    sums = scores.sum(-1, keepdim=True) + (q @ keys) * decay
    gated = k * gates[..., -1, :].unsqueeze(-1)
    kept = decay[..., -1:, :]
    state = state * kept + gated.transpose(-1, -2) @ v
    keys = keys * kept + gated.sum(-2).unsqueeze(-1)
    return mixed, _divisor(torch, sums, m), (state, keys, m[..., -1:])


def _step(torch: Any, heads: Any, before: Any) -> tuple[Any, Any, Any]:
    """What one token mixes, its divisor without eps, and C, n and m after it."""
    (q, k, v, i, f), (state, keys, m) = heads, before
    grown = f + m
    m = torch.maximum(grown.detach(), i.detach())
    kept = (grown - m).exp().unsqueeze(-1)
    gated = (k * (i - m).exp().unsqueeze(-1)).transpose(-1, -2)
    state, keys = state * kept + gated @ v, keys * kept + gated
    return q @ state, _divisor(torch, q @ keys, m), (state, keys, m)


def _divisor(torch: Any, sums: Any, m: Any) -> Any:
    return torch.maximum(sums.abs(), (-m).exp().unsqueeze(-1))


def _stepwise(q: Shape, v: Shape) -> tuple[Part, ...]:
    """Parts of the recurrent form: C and n are read and written with every token."""
    rows, n, states = prod(v[:3]), prod(v), prod(q) * (v[3] + 1)
    gate_keys, state, readout, normalizer = _products(q, v, rows)
    return (
        replace(gate_keys, read=prod(q) + 2 * rows),
        replace(state, read=n, written=states),
        _passed(states, read=states),
        replace(readout, read=prod(q), written=0),
        replace(normalizer, read=0, written=0),
    )


def _products(q: Shape, v: Shape, carries: Number) -> tuple[Part, ...]:
    """Gated keys; their products with the values; what queries read of C, and of n."""
    keys, n, totals = prod(q), prod(v), carries * q[3]
    return (
        _weighed("gate_keys", keys, prod(v[:3]), K),
        contraction("state", 2 * n * q[3], [(keys, (K, *GATES)), (n, V)], totals * v[3]),
        contraction("readout", 2 * n * q[3], [(keys, Q), (totals * v[3], (K, V, *GATES))], n),
        contraction("normalizer", 2 * keys, [(keys, Q), (totals, (K, *GATES))], prod(v[:3])),
    )


def _weighed(name: str, n: Number, rows: Number, wrt: int | tuple[int, ...], *, added: int = 0) -> Part:
    """n elements times a gate exp(x - m) per token and head, and `added` 1 to others."""
    backward = (
        Part("d_values", OpClass.ELEMENTWISE, n, n + rows, n, wrt=wrt),
        Part("d_gates", OpClass.NORMALIZATION, 2 * n, 2 * n, rows, wrt=GATES),
    )
    return Part(name, OpClass.ELEMENTWISE, n + added * n + 3 * rows, 0, 0, backward)


def _passed(sums: Number, read: Number) -> Part:
    """States that decay, plus new terms; the gradient does the same backwards in time."""
    backward = (
        Part("d_state", OpClass.ELEMENTWISE, 2 * sums, 2 * sums, sums, wrt=(K, V, *GATES)),
        Part("d_4", OpClass.NORMALIZATION, 2 * sums, 2 * sums, 0, wrt=FORGET),
    )
    return Part("passing", OpClass.ELEMENTWISE, 2 * sums, read, 0, backward)


def _divided(n: Number, rows: Number) -> tuple[Part, ...]:
    """The divisor max(|n q|, exp(-m)) + eps, and the division.

    Backward: g / divisor for the result, -sum(g y) / divisor for the divisor, whose sign is that of n q.
    """
    every = (Q, K, V, *GATES)
    to_result = Part("d_result", OpClass.ELEMENTWISE, n, n + rows, n, wrt=every)
    to_divisor = Part("d_divisor", OpClass.NORMALIZATION, 2 * n, 2 * n + rows, rows, wrt=(Q, K, *GATES))
    return (
        Part("divisor", OpClass.ELEMENTWISE, 3 * rows, 0, 0),
        Part("divide", OpClass.ELEMENTWISE, n, 0, n, (to_result, to_divisor)),
    )
