"""Blocks on a grid of places [B, h, w, C]: ConvNeXt's, and those that make a grid coarser and wider.

B batch, h and w rows and columns, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import Activation
from archcli.modules.networks.grid_steps import GridStep, grid_after, run_grid_steps
from archcli.modules.spec.base import Conflict, Count, Positive, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.unread import Holder
from archcli.modules.spec.values import Length
from archcli.ops import Add, ChannelsFirst, ChannelsLast, Conv2d, Linear, MergePlaces, TrainedScale


class ConvolvedBlock(Block):
    """x += c F(N(conv x)), conv a kernel for each channel of `kernel` x `kernel` places.

    ConvNeXt, arXiv:2201.03545 section 2. `layer_scale` is what the numbers c of the channels start at.
    """

    kind: Literal["convolved"] = "convolved"
    kernel: Size = 7
    layer_scale: Positive | None = None

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h, w, C]."""
        self.hold(x)
        sides, channels = (self.kernel, self.kernel), x.shape[3]
        around = (self.kernel // 2, self.kernel // 2)
        conv = Conv2d("conv", channels, sides, padding=around, groups=channels)
        y = ChannelsLast("conv_last")(conv(ChannelsFirst("conv_first")(x), group="depthwise_conv"))
        y = self.norm(y, name="ffn_norm")
        y = y if self.ffn is None else self.ffn(y, name="ffn")
        if self.layer_scale is not None:
            y = TrainedScale("ffn_layer_scale", per_channel=True, start=self.layer_scale)(y, group="norms")
        return self._add(x, y, "ffn"), None

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a mixer, no network, a kernel without a middle."""
        yield from super().check()
        if self.mixing is not None or self.ffn is None:
            what = "its convolution mixes places, and ffn works on each"
            yield Conflict("convolved-parts", "ffn", what, "state ffn, and no attention or mixer")
        yield from _even(self.kernel)


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


class Convolutions(Block):
    """y = act(S x + x + sum of B x): steps S in a row, and branches B beside them, each of one step.

    With `residual` x itself is added. ResNet (arXiv:1512.03385) has a branch where the grid becomes coarser
    or wider, and else x. `before` are steps in front of S and B (BiT, arXiv:1912.11370). `activation` follows
    the sum.
    """

    kind: Literal["convolutions"] = "convolutions"
    before: tuple[GridStep, ...] = ()
    steps: Annotated[tuple[GridStep, ...], Length(least=1)]
    branches: tuple[GridStep, ...] = ()
    residual: bool = False
    activation: Activation | None = None

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to the grid behind the steps."""
        self.hold(x)
        read = run_grid_steps(self.before, x, "before")
        y = run_grid_steps(self.steps, read, "steps")
        for number, branch in enumerate(self.branches):
            beside = branch(read, name=f"branches.{number}")
            y = Add(f"branch{number}_add")(y, beside)
        if self.residual:
            y = self._add(x, y, "convolutions")
        return y if self.activation is None else self.activation(y, name="activation"), None

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns behind the steps."""
        return grid_after(self.steps, grid_after(self.before, grid))

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network, in the place of which it has steps."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            what = "its steps stand in the place of a mixer and a network"
            yield Conflict("convolutions-parts", "ffn", what, "leave them out")


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
        """Rows and columns of the grid that it makes of one with these."""
        kernel = self.size if self.kernel is None else self.kernel
        h, w = ((side + 2 * self.padding - kernel) // self.size + 1 for side in grid)
        return h, w


class PatchMerging(Coarser):
    """y = W N [four neighbours]: 2 x 2 places become one, `out` channels wide. Swin, arXiv:2103.14030.

    With `norm_last` y = N W [four neighbours] (Swin V2).
    """

    kind: Literal["patch_merging"] = "patch_merging"
    norm_last: bool = False

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, h / 2, w / 2, out], rounded up."""
        y = MergePlaces("merge")(x)
        y = y if self.norm_last else self.norm(y, name="norm")
        reduced: Tensor = Linear("reduce", self.out)(y, group="downsampling")
        return self.norm(reduced, name="norm") if self.norm_last else reduced, None

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the grid that it makes of one with these."""
        return (grid[0] + 1) // 2, (grid[1] + 1) // 2


__all__ = ["Coarser", "Convolutions", "ConvolvedBlock", "ConvolvedPreNorm", "Downsample", "PatchMerging"]
