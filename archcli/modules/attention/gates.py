"""Gates of attention: on its result, and on its values to choose keys.

B batch, T new tokens, D d_model, H query heads, e width of a value head, S visible tokens, K kv heads.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation, Sigmoid
from archcli.modules.spec.base import Inline, Module, Size
from archcli.modules.spec.context import Context
from archcli.ops import Activate, GateKeys, HeadBias, Linear, MergeHeads, Multiply, SplitHeads, TrainedScale


class OutputGate(Inline):
    """mixed * f(G x): gates projected from the token x that attention reads.

    Qiu et al. 2025, arXiv:2505.06708.

    `per` channel has a gate for each of the H e channels (AFMoE), head one for each head (Step 3.5). With
    `activation` softplus a gate can exceed 1 (Laguna). `bias` adds a number for each head before it (Beam),
    `projection_bias` biases G.
    """

    per: Literal["channel", "head"] = "channel"
    activation: Activation = Sigmoid()
    bias: bool = False
    projection_bias: bool = False

    def forward(self, x: Tensor, mixed: Tensor, *, name: str) -> Tensor:
        """Gate heads mixed [B, T, H, e] by tokens x [B, T, D]."""
        heads, width = mixed.shape[-2], mixed.shape[-1]
        gates = Linear(name, heads if self.per == "head" else heads * width, self.projection_bias)(x)
        if self.bias:
            split = HeadBias(f"{name}_heads_bias")(SplitHeads(f"{name}_heads", heads)(gates))
            split = self.activation(split, name=f"{name}_activation")
        else:
            gates = self.activation(gates, name=f"{name}_activation")
            split = SplitHeads(f"{name}_heads", heads)(gates)
        gated: Tensor = Multiply("gated")(mixed, split)
        return gated


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
        """The gates [B, H, T, S] to add to scores, from visible values v [B, S, K, e]."""
        steps = Linear("dt_proj", v.shape[-2], self.bias)(MergeHeads("values")(v))
        # a starts at 0, as A of DogeAttention: every gate starts at exp(0) = 1
        rate = TrainedScale("rate", per_channel=True, start=0.0)(Activate("softplus", "softplus")(steps))
        gates = Activate("gate", "exp")(rate)
        added: Tensor = GateKeys("keys", heads, self.top_k, context.past)(gates, context.positions)
        return added
