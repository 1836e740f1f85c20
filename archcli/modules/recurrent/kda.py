"""Kimi Delta Attention: the delta rule with a decay for each channel of a key."""

from __future__ import annotations

from typing import Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.activation import Sigmoid
from archcli.modules.base import Size
from archcli.modules.recurrent.delta_net import DeltaRule, Heads
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm
from archcli.ops import Linear, SplitHeads


class KimiDeltaAttention(DeltaRule):
    """The delta rule with a decay per channel, from gates of low rank. Kimi Linear, arXiv:2510.26692.

        q, k, v = act(conv(Wq u)), act(conv(Wk u)), act(conv(Wv u))                [H d] each; |q| = |k| = 1
        a_t = exp(-exp(A_log) softplus(Wfb Wfa u + dt_bias)), b_t = sigmoid(Wb u)  a per channel, b per head
        S_t = (1 - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T,  y_t = S_t^T q_t / sqrt(d)       [d, d]
        out = Wo (norm(y) sigmoid(Wgb Wga u))                                               norm over heads

    `gate_rank` is the width between Wfa and Wfb, and between Wga and Wgb; left out, that of a head.
    """

    kind: Literal["kda"] = "kda"
    n_heads: Size
    head_dim: Size
    gate_rank: Size | None = None
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
        split: Tensor = SplitHeads("f_heads", self.n_heads)(self._low_rank(x, "f"))
        return split

    def gate(self, x: Tensor) -> Tensor:
        """Wgb Wga u, [B, T, H d]."""
        return self._low_rank(x, "g")

    def _low_rank(self, x: Tensor, name: str) -> Tensor:
        narrow = Linear(f"{name}_a_proj", self.rank)(x)
        projected: Tensor = Linear(f"{name}_b_proj", self.n_heads * self.head_dim)(narrow)
        return projected
