"""ValueGate: keys chosen by a trained gate on their values (dynamic mask attention).

B batch, T new tokens, S visible tokens, H query heads, K kv heads, e width of a value head.
"""

from __future__ import annotations

from typing import ClassVar

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.base import Module, Size
from archcli.modules.context import Context
from archcli.ops import Activate, GateKeys, Linear, MergeHeads, TrainedScale


class ValueGate(Module):
    """Each kv head reads the `top_k` visible keys of largest gate, which is added to their scores.

    Doge, arXiv:2508.02124:

        gate_s = exp(a softplus(W v_s))  [K]

    W [K, K e] reads the values of all kv heads, `bias` biases it, and a [K] is trained. The gates are made
    anew of all cached values: nothing is cached beside keys and values. The choice has no gradient, the gates
    have one. Which of equal gates are chosen is open; in a first layer those of a token that comes twice are
    equal.
    """

    group: ClassVar[str] = "attention"
    top_k: Size
    bias: bool = False

    def forward(self, v: Tensor, context: Context, heads: Number) -> Tensor:
        """What is added to scores [B, H, T, S], from visible values v [B, S, K, e]."""
        steps = Linear("dt_proj", v.shape[-2], self.bias)(MergeHeads("values")(v))
        rate = TrainedScale("rate", per_channel=True, start=0.0)(Activate("softplus", "softplus")(steps))
        gates = Activate("gate", "exp")(rate)
        added: Tensor = GateKeys("keys", heads, self.top_k, context.past)(gates, context.positions)
        return added
