"""Feed-forward layers of one dense network: plain and gated.

Mixtures of experts stand in `moe.py` and are made of these.

B batch, T new tokens, D d_model, F d_ff.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from archcli.graph import Tensor
from archcli.modules.activation import GELU, Activation, SiLU
from archcli.modules.base import Module, Size
from archcli.ops import Linear, Multiply


class FeedForward(Module):
    """Per-token network, [B, T, D] to [B, T, D]."""

    family: ClassVar[str] = "ffn"
    group: ClassVar[str] = "ffn"

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] to [..., D]."""
        raise NotImplementedError


class MLP(FeedForward):
    """down(act(up x)): two matrices.

    Vaswani et al. 2017, arXiv:1706.03762 section 3.3. `bias` false leaves both without bias.
    """

    kind: Literal["mlp"] = "mlp"
    d_ff: Size
    activation: Activation = Field(default_factory=GELU)
    bias: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """down(act(up x))."""
        hidden = self.activation(Linear("up_proj", self.d_ff, self.bias)(x), name="activation")
        y: Tensor = Linear("down_proj", x.shape[-1], self.bias)(hidden)
        return y


class GLU(FeedForward):
    """down(act(gate x) * up x): three matrices.

    Shazeer 2020, arXiv:2002.05202; with silu it is SwiGLU, with gelu GeGLU, with relu ReGLU.

    Differs from MLP in the gate. `bias` false, as in the paper, leaves all three without bias.
    """

    kind: Literal["glu"] = "glu"
    d_ff: Size
    activation: Activation = Field(default_factory=SiLU)
    bias: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """down(act(gate x) * up x)."""
        gate = self.activation(Linear("gate_proj", self.d_ff, self.bias)(x), name="activation")
        hidden = Multiply("gated")(gate, Linear("up_proj", self.d_ff, self.bias)(x))
        y: Tensor = Linear("down_proj", x.shape[-1], self.bias)(hidden)
        return y
