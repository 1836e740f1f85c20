"""Kimi Delta Attention: the delta rule with a decay for each channel of a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.activation import Sigmoid
from archcli.modules.base import Conflict, Size
from archcli.modules.recurrent.delta_net import DeltaRule, Heads
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm
from archcli.modules.values import Interval
from archcli.ops import Linear, SplitHeads


class KimiDeltaAttention(DeltaRule):
    """The delta rule with a decay per channel, from gates of low rank. Kimi Linear, arXiv:2510.26692.

        q, k, v = act(conv(Wq u)), act(conv(Wk u)), act(conv(Wv u))                [H d] each; |q| = |k| = 1
        a_t = exp(-exp(A_log) softplus(Wfb Wfa u + dt_bias)), b_t = sigmoid(Wb u)  a per channel, b per head
        S_t = (1 - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T,  y_t = S_t^T q_t / sqrt(d)       [d, d]
        out = Wo (norm(y) sigmoid(Wgb Wga u))                                               norm over heads

    `gate_rank` is the width between Wfa and Wfb, and between Wga and Wgb; left out, that of a head. With
    `full_gates` one matrix Wf and one Wg stand in their place. `decay_bound` c below 0 bounds the decay: log
    a_t = c sigmoid(exp(A_log) (Wf u + dt_bias)), so that a chunk's decays stay within numbers (Ling 3).
    """

    kind: Literal["kda"] = "kda"
    n_heads: Size
    head_dim: Size
    gate_rank: Size | None = None
    full_gates: bool = False
    decay_bound: Annotated[float, Interval(lt=0)] | None = None
    norm: GatedNorm = GatedRMSNorm(gate="after", activation=Sigmoid())

    @property
    def heads(self) -> Heads:
        """H heads of queries, keys and values."""
        return tuple((name, self.n_heads, self.head_dim) for name in "qkv")

    @property
    def rank(self) -> Number:
        """The width between the two matrices of a gate."""
        return self.head_dim if self.gate_rank is None else self.gate_rank

    def decay_input(self, x: Tensor) -> Tensor:
        """Wfb Wfa u, [B, T, H, d]."""
        split: Tensor = SplitHeads("f_heads", self.n_heads)(self._gates(x, "f"))
        return split

    def decay(self, x: Tensor) -> Tensor:
        """log a, bounded from below where that is asked for, [B, T, H, d]."""
        if self.decay_bound is None:
            return super().decay(x)
        from archcli.ops import BoundedLogDecay  # rare: Ling 3

        bounded: Tensor = BoundedLogDecay("decay", self.decay_bound)(self.decay_input(x))
        return bounded

    def gate(self, x: Tensor) -> Tensor:
        """Wgb Wga u, [B, T, H d]."""
        return self._gates(x, "g")

    def _gates(self, x: Tensor, name: str) -> Tensor:
        """A number for each channel of each head, [B, T, H d]."""
        width = self.n_heads * self.head_dim
        if self.full_gates:
            whole: Tensor = Linear(f"{name}_proj", width)(x)
            return whole
        narrow = Linear(f"{name}_a_proj", self.rank)(x)
        projected: Tensor = Linear(f"{name}_b_proj", width)(narrow)
        return projected

    def check(self) -> Iterator[Conflict]:
        """Conflict: a rank of gates that are full."""
        yield from super().check()
        if self.full_gates and self.gate_rank is not None:
            yield Conflict("full-gates-rank", "gate_rank", "full gates have no rank", "leave one of them out")
