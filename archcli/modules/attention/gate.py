"""OutputGate: attention's result, gated by the token before the output projection.

B batch, T new tokens, D d_model, H query heads, e width of a value head.
"""

from __future__ import annotations

from typing import Literal

from archcli.graph import Tensor
from archcli.modules.activation import Activation, Sigmoid
from archcli.modules.base import Inline
from archcli.ops import HeadBias, Linear, Multiply, SplitHeads


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
