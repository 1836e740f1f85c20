"""Blocks on a grid of places [B, h, w, C]: ConvNeXt's, and those that make a grid coarser and wider.

B batch, h and w rows and columns, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.spec.base import Conflict, Count, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.unread import Holder
from archcli.ops import Add, ChannelsFirst, ChannelsLast, Conv2d


def _even(kernel: int) -> Iterator[Conflict]:
    if kernel % 2 == 0:
        yield Conflict("convolved-kernel", "kernel", "an even kernel has no middle", "state an odd one")


class ConvolvedPreNorm(Block):
    """x += conv x; x += A(N x); x += conv x; x += F(N x): a convolution before each sublayer.

    conv is a kernel of `kernel` x `kernel` places for each channel. DaViT, arXiv:2204.03645 section 3;
    conditional positions, arXiv:2102.10882.
    """

    kind: Literal["convolved_pre_norm"] = "convolved_pre_norm"
    kernel: Size = 3

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h, w, C]."""
        self.hold(x)
        if self.mixing is not None:
            step, mixer = self.mixing
            x = self._convolved(x, step)
            y, _ = mixer(self.norm(x, name=f"{step}_norm"), or_default(x, context), name=step)
            x = self._add(x, y, step)
        if self.ffn is not None:
            x = self._convolved(x, "ffn")
            x = self._add(x, self.ffn(self.norm(x, name="ffn_norm"), name="ffn"), "ffn")
        return x, None

    def _convolved(self, x: Tensor, name: str) -> Tensor:
        """x + conv x."""
        sides, around = (self.kernel, self.kernel), (self.kernel // 2, self.kernel // 2)
        conv = Conv2d(f"{name}_conv", x.shape[3], sides, padding=around, groups=x.shape[3])
        y = conv(ChannelsFirst(f"{name}_conv_first")(x), group="depthwise_conv")
        total: Tensor = Add(f"{name}_conv_residual")(x, ChannelsLast(f"{name}_conv_last")(y))
        return total

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a kernel without a middle, a network that carries a state."""
        yield from super().check()
        yield from self.check_stateless("convolved_pre_norm")
        yield from _even(self.kernel)


class Coarser(Block):
    """Base of the layers that make a grid coarser, and its places `out` channels wide."""

    out: Size

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network, which this layer has none of."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            what = "a layer that makes the grid coarser has no mixer and no network"
            yield Conflict("coarser-parts", "ffn", what, "leave them out")


class Downsample(Coarser):
    """y = conv(N x): `size` x `size` places become one, `out` channels wide. ConvNeXt, arXiv:2201.03545.

    A `kernel` that is larger than `size` overlaps its neighbours; `padding` zeros stand around the grid
    (DaViT, arXiv:2204.03645).
    """

    kind: Literal["downsample"] = "downsample"
    size: Size = 2
    kernel: Size | None = None
    padding: Count = 0

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h / size, w / size, out]."""
        step, around = (self.size, self.size), (self.padding, self.padding)
        kernel = step if self.kernel is None else (self.kernel, self.kernel)
        y = ChannelsFirst("first")(self.norm(x, name="norm"))
        reduced = Conv2d("reduce", self.out, kernel, step, around)(y, group="downsampling")
        return ChannelsLast("last")(reduced), None

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the output grid."""
        kernel = self.size if self.kernel is None else self.kernel
        h, w = ((side + 2 * self.padding - kernel) // self.size + 1 for side in grid)
        return h, w
