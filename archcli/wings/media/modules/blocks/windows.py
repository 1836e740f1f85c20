"""Attention within windows of a grid of places, of channels, and along the axes of a grid.

B batch, h and w rows and columns, s side of a window, W windows, C channels, H heads, T = s s places.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedAttention
from archcli.modules.positions.relative import ScoreBias
from archcli.modules.spec.base import Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.values import Interval
from archcli.ops import (
    AxisBias,
    ChannelTokens,
    CutWindows,
    FlattenPlaces,
    JoinChannels,
    JoinWindows,
    Linear,
    Mask,
    PatchWindows,
    Positions,
    SplitHeads,
)

Side = Annotated[int, Interval(ge=1)]
"""Places on each side of a window: no symbol of formulas, as windows of a whole grid do not move."""


class GridWindowAttention(ProjectedAttention):
    """Attention of the places of each window of `side` x `side`. DaViT, arXiv:2204.03645 section 3.3."""

    title: ClassVar[str] = "Window attention"
    short_title: ClassVar[str] = "window attention"
    kind: Literal["grid_window"] = "grid_window"
    side: Side

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, h, w, C] to [B, h, w, C]."""
        h, w = x.shape[1:3]
        windows = CutWindows("windows", self.side)(x)
        y, _ = super().forward(windows, Context(Positions("places")(windows)))
        return JoinWindows("grid", (h, w), self.side)(y), None


class PatchWindowAttention(ProjectedAttention):
    """Attention of the patches of each window of `side` x `side`, cut off at the border of the image.

    Qwen2.5-VL, arXiv:2502.13923 section 2.1. `n_kv_heads` are fewer heads of keys and values (EXAONE 4.5).
    """

    title: ClassVar[str] = "Window attention"
    short_title: ClassVar[str] = "window attention"
    kind: Literal["patch_window"] = "patch_window"
    side: Size
    n_kv_heads: Size | None = None

    @property
    def kv_heads(self) -> Number:
        """H, or fewer."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    def mask_in(self, context: Context) -> Mask:
        """Patches of the same window of the grid that the tokens are."""
        if context.grid is None:
            raise ArchError("windows of patches need an encoder that reads an image in patches")
        # while fvcore traces, sizes are tensors, which a node hands on as it does all tensors
        rows, columns = (side.value if isinstance(side, Tensor) else side for side in context.grid)
        return PatchWindows(rows, columns, self.side)


class ChannelAttention(ProjectedAttention):
    """Attention of channels to channels, within `n_heads` groups of them.

    A channel is a vector as wide as there are places, and scores are scaled by (h w)^-0.5. DaViT,
    arXiv:2204.03645 section 3.2.
    """

    title: ClassVar[str] = "Channel attention"
    short_title: ClassVar[str] = "channel attention"
    kind: Literal["channel"] = "channel"

    @property
    def kv_heads(self) -> Number:
        """G."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, h, w, C] to [B, h, w, C]."""
        h, w, width = x.shape[1:]
        q, k, v = (
            ChannelTokens(f"{which}_heads", self.n_heads)(self._projected(x, which, width))
            for which in ("q", "k", "v")
        )
        mixed = self.attend(Context(Positions("channels")(q)), h * w, q, k, v)
        y = JoinChannels("join", (h, w))(mixed)
        out: Tensor = Linear("o_proj", width, self._biased("o"))(y)
        return out, None


class AxisAttention(ProjectedAttention):
    """Attention of the places of a grid to each other, with q . r for each difference of places.

    r is a trained vector of the difference of rows, plus one of columns (MViTv2, arXiv:2112.01526 section
    4.1; SAM, arXiv:2304.02643). With `side` places see those of their window of `side` x `side`; places that
    fill a window up at the border are zeros, and seen.
    """

    title: ClassVar[str] = "Attention with differences of rows and columns"
    short_title: ClassVar[str] = "axis attention"
    kind: Literal["grid_axes"] = "grid_axes"
    side: Size | None = None

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, h, w, C] to [B, h, w, C]."""
        h, w = x.shape[1:3]
        if self.side is None:
            places, grid = FlattenPlaces("flatten")(x), (h, w)
        else:
            places, grid = CutWindows("windows", self.side)(x), (self.side, self.side)
        y, _ = super().forward(places, Context(Positions("places")(places), grid=grid))
        if self.side is None:
            return SplitHeads("grid", h, axis=1)(y), None
        return JoinWindows("grid", (h, w), self.side)(y), None

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """The bias [B, H, T, T] of every pair of places."""
        if context.grid is None:
            raise ArchError("differences of rows and columns need a grid of places")
        bias: Tensor = AxisBias("axis_bias", context.grid)(q, group=ScoreBias.group)
        return bias
