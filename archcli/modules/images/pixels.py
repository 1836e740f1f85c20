"""Attention of places that lie alike in patches, and layers of it between convolutions: MobileViT.

B batch, h and w rows and columns, s side of a patch, N patches, C channels, G = B s s groups of places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedAttention
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import Activation, ReLU
from archcli.modules.networks.grid_steps import GridStep, run_grid_steps
from archcli.modules.spec.base import Conflict
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.unread import Holder
from archcli.modules.spec.values import Interval, Length
from archcli.ops import Concat, CutGroups, JoinGroups, Linear, Multiply, Positions, SoftmaxSum, Split

Whole = Annotated[int, Interval(ge=1)]
"""A number that is no symbol of formulas: grids are cut by it, and layers laid out."""


def _check_grid(x: Tensor, side: int) -> tuple[Number, Number]:
    """Rows and columns of a grid [B, h, w, C]; ArchError where they are no whole number of patches."""
    h, w = x.shape[1:3]
    if is_whole(h) and is_whole(w) and (h % side or w % side):
        what = f"a grid of {h} x {w} places is no whole number of patches of {side} x {side}"
        raise ArchError(what, "resize the image")
    return h, w


class PixelAttention(ProjectedAttention):
    """Attention of the places that lie alike in patches of `side` x `side`.

    MobileViT, arXiv:2110.02178 section 3.1: each of the s s places of a patch sees those of other patches.
    """

    title: ClassVar[str] = "Attention of like places"
    short_title: ClassVar[str] = "pixel attention"
    kind: Literal["grid_pixels"] = "grid_pixels"
    side: Whole = 2

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, h, w, C] to [B, h, w, C]."""
        grid = _check_grid(x, self.side)
        groups = CutGroups("groups", self.side)(x)
        y, _ = super().forward(groups, Context(Positions("places")(groups)))
        return JoinGroups("grid", grid, self.side)(y), None


class SeparableAttention(Mixer):
    """y = Wo (act(v_n) * sum_m softmax(q)_m k_m) over the places m that lie alike in patches.

    MobileViTv2, arXiv:2206.02680 section 3.2: q is one number of each place, k and v are vectors.
    Patches are of `side` x `side` places.
    """

    title: ClassVar[str] = "Separable attention"
    short_title: ClassVar[str] = "separable"
    kind: Literal["separable"] = "separable"
    side: Whole = 2
    activation: Activation = ReLU()

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C]."""
        grid, width = _check_grid(x, self.side), x.shape[3]
        groups = CutGroups("groups", self.side)(x)
        q, k, v = Split("split", (1, width, width))(Linear("qkv_proj", 2 * width + 1, True)(groups))
        summed = SoftmaxSum("context")(q, k)
        mixed = Multiply("mixed")(self.activation(v, name="activation"), summed)
        y = Linear("o_proj", width, True)(mixed)
        return JoinGroups("grid", grid, self.side)(y), None


class FusedBlock(Block):
    """y = F [x; S' L S x]: layers L between steps S and S', whose result stands beside x, and steps F.

    MobileViT, arXiv:2110.02178 section 3.1. `before` are the steps S, `repeats` times
    `layer` are L, `behind` are S', `fusion` are F.
    """

    kind: Literal["fused"] = "fused"
    before: Annotated[tuple[GridStep, ...], Length(least=1)]
    repeats: Whole = 1
    layer: Block
    behind: Annotated[tuple[GridStep, ...], Length(least=1)]
    fusion: Annotated[tuple[GridStep, ...], Length(least=1)]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h, w, C']."""
        self.hold(x)
        context, y = or_default(x, context), run_grid_steps(self.before, x, "before")
        for i in range(self.repeats):
            y, _ = self.layer(y, context, name=f"layers.{i}")
        y = run_grid_steps(self.behind, y, "behind")
        return run_grid_steps(self.fusion, Concat("join")(x, y), "fusion"), None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network of its own."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            yield Conflict("fused-parts", "ffn", "its layers have them", "state them in layer")


__all__ = ["FusedBlock", "PixelAttention", "SeparableAttention"]
