"""Pooling: the vectors of an image or a sound become one.

B batch, T tokens, D width.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation, Tanh
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Count, Module
from archcli.ops import KeepFirst, Linear, MeanTokens


class Pooling(Module):
    """A map from the vectors [B, T, D] of a whole to one vector [B, 1, D]."""

    family: ClassVar[str] = "pooling"
    default_kind: ClassVar[str] = "first"
    group: ClassVar[str] = "pooler"

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        raise NotImplementedError


class FirstToken(Pooling):
    """The first token, which is the class token (ViT); normalized by `norm` (CLIP), with `dense` act(W x + b).

    `activation` is that of `dense`.
    """

    kind: Literal["first"] = "first"
    norm: Norm | None = None
    dense: bool = False
    activation: Activation = Tanh()

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        y: Tensor = KeepFirst("first")(x)
        y = y if self.norm is None else self.norm(y, name="norm")
        if self.dense:
            y = self.activation(Linear("dense", x.shape[-1], True)(y), name="activation")
        return y


class MeanToken(Pooling):
    """The mean of the tokens behind the first `skipped`, normalized by `norm` (BEiT, arXiv:2106.08254)."""

    kind: Literal["mean"] = "mean"
    skipped: Count = 0
    norm: Norm | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        y: Tensor = MeanTokens("mean", self.skipped)(x)
        return y if self.norm is None else self.norm(y, name="norm")


__all__ = ["FirstToken", "MeanToken", "Pooling"]
