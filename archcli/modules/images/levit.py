"""LeViT's layers: attention and networks whose matrices are followed by batch norms.

B batch, h and w rows and columns, C channels, H heads, d width of a key, e of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import Activation, HardSwish
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.values import Interval
from archcli.ops import (
    AbsoluteBias,
    Attend,
    Bidirectional,
    EveryPlace,
    FlattenPlaces,
    FoldPlaces,
    Linear,
    MergeHeads,
    Positions,
    Split,
    SplitHeads,
)
from archcli.ops.attention.mask import Mask


class DistanceAttention(Mixer):
    """y = N Wo act(softmax(scale q k^T + b) v), with a number b of each distance of rows and columns.

    LeViT, arXiv:2104.01136 section 4.2. One matrix and a norm make q and k of `head_dim` and v of
    `v_head_dim` of each head. With `stride` queries are every stride-th row and column, from a matrix of
    their own, and y is `out` wide: the grid becomes coarser. `side` are the rows and columns of the table.
    """

    title: ClassVar[str] = "Attention with biases of distances"
    short_title: ClassVar[str] = "distance attention"
    group: ClassVar[str] = "attention"
    kind: Literal["grid_distances"] = "grid_distances"
    n_heads: Size
    head_dim: Size
    v_head_dim: Size
    side: Size
    stride: Annotated[int, Interval(ge=1)] | None = None
    out: Size | None = None
    activation: Activation = HardSwish()
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C], or to the coarser grid [B, h', w', out]."""
        h, w = x.shape[1:3]
        if is_whole(h) and is_whole(w) and is_whole(self.side) and (h, w) != (self.side, self.side):
            what = f"a grid of {h} x {w} places is not read: biases are those of {self.side} x {self.side}"
            raise ArchError(what, "resize the image to image_size")
        grid, (q, k, v) = (h, w), self._parts(x)
        positions = Positions("positions")(q)
        distances = AbsoluteBias("distances", self.n_heads, (h, w), self.stride or 1)
        bias = distances(positions, group="position_embedding")
        mask: Mask = Bidirectional()
        attend = Attend("attend", mask, self.head_dim**-0.5, extras=("shared_bias",))
        mixed = self.activation(MergeHeads("merge")(attend(q, k, v, positions, bias)), name="activation")
        y = self._normed("o", x.shape[3] if self.out is None else self.out, mixed)
        if self.stride is not None:
            grid = ((h - 1) // self.stride + 1, (w - 1) // self.stride + 1)
        return FoldPlaces("grid", grid)(y), None

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, T, H, d] and [B, T, H, e]."""
        d, e, n = self.head_dim, self.v_head_dim, self.n_heads
        tokens = FlattenPlaces("tokens")(x)
        if self.stride is None:
            joined = SplitHeads("heads", n)(self._normed("qkv", n * (2 * d + e), tokens))
            q, k, v = Split("split", (d, d, e))(joined)
            return q, k, v
        joined = SplitHeads("heads", n)(self._normed("kv", n * (d + e), tokens))
        k, v = Split("split", (d, e))(joined)
        fewer = FlattenPlaces("fewer")(EveryPlace("every", self.stride)(x))
        return SplitHeads("q_heads", n)(self._normed("q", n * d, fewer)), k, v

    def _normed(self, which: str, width: Number, x: Tensor) -> Tensor:
        """N W x."""
        return self.norm(Linear(f"{which}_proj", width)(x), name=f"{which}_norm")

    def check(self) -> Iterator[Conflict]:
        """Conflict: another width without a coarser grid."""
        yield from super().check()
        if (self.stride is None) != (self.out is None):
            what = "a coarser grid has a width of its own"
            yield Conflict("distances-out", "out", what, "state stride and out, or neither")


class NormedNetwork(FeedForward):
    """y = N W2 act(N W1 x), both matrices followed by a norm (LeViT)."""

    kind: Literal["normed_mlp"] = "normed_mlp"
    d_ff: Size
    activation: Activation = HardSwish()
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] to [..., D]."""
        hidden = self.norm(Linear("up_proj", self.d_ff)(x), name="up_norm")
        hidden = self.activation(hidden, name="activation")
        return self.norm(Linear("down_proj", x.shape[-1])(hidden), name="down_norm")


class UnnormedBlock(Block):
    """x += A x; x += F x, without norms around A and F; with `replaces` A x takes the place of x."""

    kind: Literal["unnormed"] = "unnormed"
    replaces: bool = False

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h, w, C], or to the grid that the mixer makes."""
        self.hold(x)
        if self.mixing is not None:
            step, mixer = self.mixing
            y, _ = mixer(x, or_default(x, context), name=step)
            x = y if self.replaces else self._add(x, y, step)
        if self.ffn is not None:
            x = self._add(x, self.ffn(x, name="ffn"), "ffn")
        return x, None

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns behind the mixer."""
        stride = getattr(self.mixing[1], "stride", None) if self.mixing else None
        if stride is None:
            return grid
        return (grid[0] - 1) // stride + 1, (grid[1] - 1) // stride + 1

    def check(self) -> Iterator[Conflict]:
        """Conflict: a network that carries a state."""
        yield from super().check()
        yield from self.check_stateless("unnormed")


__all__ = ["DistanceAttention", "NormedNetwork", "UnnormedBlock"]
