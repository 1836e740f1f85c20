"""Projectors: steps from the vectors of a tower to those that a language model reads.

B batch, T tokens, D width, h and w rows and columns of patches.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Module, Size
from archcli.modules.spec.values import Length
from archcli.ops import DropTokens, Linear, MergeBlocks, PoolBlocks

Block = Annotated[tuple[Size, ...], Length(2, 2)]
"""Rows and columns of a block of patches; (n, 1) are n tokens of a sequence."""
Places = tuple[int, int]
GROUP = "projector"


class ProjectorStep(Module):
    """A step of a projector, from [B, T, D] to other tokens or another width."""

    family: ClassVar[str] = "projector_step"
    default_kind: ClassVar[str] = "linear"
    group: ClassVar[str] = GROUP

    def places_after(self, places: Places) -> Places:
        """Rows and columns behind the step."""
        return places

    def tokens_after(self, tokens: int, places: Places) -> int:
        """Tokens behind the step, of so many before it; `places` are those behind it."""
        return tokens

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] of patches in so many rows and columns to the tokens behind the step."""
        raise NotImplementedError


class DropStep(ProjectorStep):
    """Leave out the first `number` tokens, which are those of classes, not of patches."""

    kind: Literal["drop"] = "drop"
    number: Size = 1

    def tokens_after(self, tokens: int, places: Places) -> int:
        """T - number."""
        return tokens - self.number

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T - number, D]."""
        kept: Tensor = DropTokens("drop", self.number)(x)
        return kept


class BlockStep(ProjectorStep):
    """A step that makes one token of each `block` of patches."""

    block: Block = (2, 2)

    def places_after(self, places: Places) -> Places:
        """Blocks in rows and columns; what fills none is left out."""
        return places[0] // self.block[0], places[1] // self.block[1]

    def tokens_after(self, tokens: int, places: Places) -> int:
        """A token for each block."""
        return places[0] * places[1]


class MergeStep(BlockStep):
    """Make one token of each `block` of patches, side by side: pixel shuffle, a patch merger."""

    kind: Literal["merge"] = "merge"

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, (h // p) (w // q), p q D]."""
        merged: Tensor = MergeBlocks("merge", places, (self.block[0], self.block[1]))(x)
        return merged


class PoolStep(BlockStep):
    """The mean of each `block` of patches (Gemma 3)."""

    kind: Literal["pool"] = "pool"

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, (h // p) (w // q), D]."""
        pooled: Tensor = PoolBlocks("pool", places, (self.block[0], self.block[1]))(x)
        return pooled


class NormStep(ProjectorStep):
    """A norm of each token."""

    kind: Literal["norm"] = "norm"
    norm: Norm

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        normed: Tensor = self.norm(x, name="norm")
        return normed


class LinearStep(ProjectorStep):
    """W x + b of each token, `width` wide."""

    kind: Literal["linear"] = "linear"
    width: Size
    bias: bool = True

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, width]."""
        y: Tensor = Linear("linear", self.width, self.bias)(x)
        return y


class ActivationStep(ProjectorStep):
    """An activation function."""

    kind: Literal["activation"] = "activation"
    activation: Activation = GELU()

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        y: Tensor = self.activation(x, name="activation")
        return y


class NetworkStep(ProjectorStep):
    """A feed-forward network of each token, without a residual (GLM-4V)."""

    kind: Literal["network"] = "network"
    ffn: FeedForward

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        y: Tensor = self.ffn(x, name="ffn")
        return y


def places_behind(steps: tuple[ProjectorStep, ...], places: Places) -> Places:
    """Rows and columns behind all steps."""
    for step in steps:
        places = step.places_after(places)
    return places


def run_steps(steps: tuple[ProjectorStep, ...], x: Tensor, places: Places, name: str) -> Tensor:
    """The tokens behind all steps, each called `name`.number."""
    for number, step in enumerate(steps):
        x = step(x, places, name=f"{name}.{number}")
        places = step.places_after(places)
    return x


__all__ = [
    "ActivationStep",
    "DropStep",
    "LinearStep",
    "MergeStep",
    "NetworkStep",
    "NormStep",
    "PoolStep",
    "ProjectorStep",
]
