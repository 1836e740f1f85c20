"""Sublayers on a grid: attention to a coarser grid, pooling, a network with a convolution.

B batch, h and w rows and columns, C channels, r reduction, H heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedHeads
from archcli.modules.attention.mixer import Mixer
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Size
from archcli.modules.spec.context import Context
from archcli.ops import (
    Attend,
    Bidirectional,
    ChannelsFirst,
    ChannelsLast,
    Conv2d,
    FlattenPlaces,
    FoldPlaces,
    Linear,
    MergeHeads,
    PoolPlaces,
    Positions,
    Subtract,
)

AXES = 3
"""Axes of a sequence; a grid has one more."""


class ReducedGridAttention(ProjectedHeads):
    """o(softmax(scale q k^T) v): queries of all places, keys and values of a grid that is r times coarser.

    Pyramid vision transformers, arXiv:2102.12122 section 3.3; SegFormer, arXiv:2105.15203. With `reduction` r
    a convolution makes one place of r x r, normalized by `norm`; places that fill no r x r are left out.
    """

    title: ClassVar[str] = "Attention over a coarser grid"
    short_title: ClassVar[str] = "coarse attention"
    kind: Literal["reduced_grid"] = "reduced_grid"
    reduction: Size | None = None
    norm: Annotated[Norm, Inherit("norm")]

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C]; without reduction also a sequence [B, T, C] to one."""
        is_grid, width = len(x.shape) > AXES, x.shape[-1]
        d, grid = self.width(width), (x.shape[1], x.shape[2])
        tokens = FlattenPlaces("tokens")(x) if is_grid else x
        coarse = tokens if self.reduction is None else self._reduced(x, self.reduction)
        q = self._heads(tokens, "q", self.n_heads, d)
        k, v = (self._heads(coarse, which, self.n_heads, d) for which in ("k", "v"))
        attend = Attend("attend", Bidirectional(), d**-0.5)
        mixed = attend(q, k, v, Positions("positions")(tokens))
        y = self._matrix("o", width)(MergeHeads("merge")(mixed))
        return FoldPlaces("grid", grid)(y) if is_grid else y, None

    def _reduced(self, x: Tensor, side: Number) -> Tensor:
        """The places of the coarser grid [B, (h // r) (w // r), C]; ArchError where there are none."""
        h, w = x.shape[1:3]
        if is_whole(side) and is_whole(h) and is_whole(w) and min(h, w) < side:
            what = f"of a grid of {h} x {w} places a square of {side} x {side} leaves no key"
            raise ArchError(what, "give a larger image")
        sides = (side, side)
        reduced = Conv2d("reduce", x.shape[3], sides, sides)(ChannelsFirst("first")(x), group="attention")
        places: Tensor = FlattenPlaces("places")(ChannelsLast("last")(reduced))
        return self.norm(places, name="reduce_norm")


class PoolMixer(Mixer):
    """y = mean of the places around x - x: pooling in place of attention. PoolFormer, arXiv:2111.11418."""

    title: ClassVar[str] = "Pooling"
    short_title: ClassVar[str] = "pooling"
    kind: Literal["grid_pool"] = "grid_pool"
    side: Size = 3

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C]."""
        mean = PoolPlaces("pool", "mean", self.side, 1, self.side // 2)(x)
        return Subtract("difference")(mean, x), None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a side without a middle."""
        yield from super().check()
        if self.side % 2 == 0:
            yield Conflict("pool-side", "side", "an even side has no middle", "state an odd one")


class ConvolvedGridNetwork(FeedForward):
    """down(act(conv(up x))): a kernel for each channel of `kernel` x `kernel` places within an MLP.

    SegFormer, arXiv:2105.15203 section 3.1: the convolution tells places apart.
    """

    kind: Literal["convolved_grid"] = "convolved_grid"
    d_ff: Size
    kernel: Size = 3
    activation: Activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h, w, C]."""
        hidden = ChannelsFirst("first")(Linear("up_proj", self.d_ff, True)(x))
        around = (self.kernel // 2, self.kernel // 2)
        conv = Conv2d("conv", self.d_ff, (self.kernel, self.kernel), padding=around, groups=self.d_ff)
        hidden = self.activation(ChannelsLast("last")(conv(hidden)), name="activation")
        y: Tensor = Linear("down_proj", x.shape[3], True)(hidden)
        return y
