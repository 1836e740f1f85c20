"""GridConvolution: a gated convolution over rows and columns of patches.

B batch, T patches, h and w rows and columns, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer, MixerFacts
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept
from archcli.ops import Conv2d, FlattenGrid, Linear, Multiply, Split, UnflattenGrid


class GridConvolution(Mixer):
    """out_proj(c * conv(b * x')) with [b, c, x'] = in_proj x, three times D wide (LFM3-VL).

    The convolution reads `kernel` x `kernel` patches around each, and each channel has its own. Differs from
    `short_conv` in two dimensions of patches in the place of one of tokens; it has no state.
    """

    title: ClassVar[str] = "Gated convolution over patches"
    short_title: ClassVar[str] = "grid conv"
    kind: Literal["grid_conv"] = "grid_conv"
    kernel: Size = 3

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of a convolution: no scores, no position."""
        return replace(super().facts(d_model), pattern="convolution")

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h w, D] to [B, h w, D]."""
        if context is None or context.grid is None:
            raise ArchError("a convolution over patches needs an encoder that reads an image in patches")
        # while fvcore traces, sizes are tensors, which a node hands on as it does all tensors
        h, w = (side.value if isinstance(side, Tensor) else side for side in context.grid)
        width, sides = x.shape[-1], (self.kernel, self.kernel)
        b, c, value = Split("split", (width,) * 3)(Linear("in_proj", 3 * width)(x))
        grid = UnflattenGrid("grid", (h, w))(Multiply("gated_in")(b, value))
        around = (self.kernel // 2, self.kernel // 2)
        conv = Conv2d("conv", width, sides, padding=around, groups=width, bias=False)
        mixed = FlattenGrid("flatten")(conv(grid))
        y: Tensor = Linear("out_proj", width)(Multiply("gated_out")(c, mixed))
        return y, None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a kernel without a middle."""
        yield from super().check()
        if self.kernel % 2 == 0:
            what = "an even kernel has no middle"
            yield Conflict("grid-conv-kernel", "kernel", what, "state an odd one")
