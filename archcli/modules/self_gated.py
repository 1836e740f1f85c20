"""A norm whose output gates itself through a bottleneck."""

from __future__ import annotations

from typing import Literal

from archcli.graph import Tensor
from archcli.modules.base import Positive, Size
from archcli.modules.norm import Norm
from archcli.ops import Activate, Linear, Multiply, Normalize


class SelfGatedRMSNorm(Norm):
    """y = n * sigmoid(W_up silu(W_down n)) with n = RMSNorm(x), for each channel; A.X K2.

    `rank` is the width of the gate's inner layer: W_down [rank, d] and W_up [d, rank] without biases.
    """

    kind: Literal["self_gated"] = "self_gated"
    eps: Positive = 1e-6
    rank: Size

    def normalize(self, name: str, axes: int = 1) -> Normalize:
        """The Normalize op without mean, whose result is gated."""
        return Normalize(name, self.eps, axes=axes)

    def forward(self, x: Tensor, *, name: str, axes: int = 1) -> Tensor:
        """Normalize x [..., d] over its last axis, and gate the result."""
        normed = self.normalize(name, axes)(x)
        low = Linear(f"{name}_gate_down", self.rank)(normed)
        low = Activate(f"{name}_gate_activation", "silu")(low)
        gate = Linear(f"{name}_gate_up", x.shape[-1])(low)
        gated: Tensor = Multiply(f"{name}_gated")(normed, Activate(f"{name}_gate", "sigmoid")(gate))
        return gated
