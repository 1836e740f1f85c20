"""Stems: an image becomes a grid of vectors by several convolutions, a video a sequence of blocks.

B batch, C channels, H and W height and width in pixels, h and w rows and columns of places, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, Shape, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.ends.patches import TABLE, FrontEnd, Sides
from archcli.modules.networks.grid_steps import GridStep, grid_after, run_grid_steps
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    ChannelsLast,
    Linear,
    Parameter,
    Positions,
    PrependTokens,
    Sinusoid,
    Tubelets,
)


class ConvolvedImage(FrontEnd):
    """A grid [B, h, w, D] from pixels by `steps`, the last of which makes d_model channels (ResNet).

    `image_size` is that of training, or the usual one; any other is read, too.
    """

    group: ClassVar[str] = "patch_embedding"
    kind: Literal["convolved_image"] = "convolved_image"
    image_size: Sides = (224, 224)
    in_channels: Size = 3
    steps: Annotated[tuple[GridStep, ...], Length(least=1)]

    @property
    def usual(self) -> Medium:
        """An image of the size of training."""
        return Medium("image", self.image_size)

    def medium(self, request: Request) -> Medium:
        """The image of a request; ArchError for one of which no place is left."""
        medium = super().medium(request)
        height, width = medium.size
        # a formula has symbols for the kernels: then they are taken to fit
        if any(is_whole(side) and side < 1 for side in grid_after(self.steps, (height, width))):
            raise ArchError(f"of an image of {height} x {width} no place is left", "give a larger one")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """Pixels [B, C, H, W]."""
        return InputSpec((batch_size, self.in_channels, *medium.size), "features")

    def grid_read(self, shape: Shape) -> Any:
        """(h, w) of [B, C, H, W]."""
        return grid_after(self.steps, (shape[2], shape[3]))

    def places_of(self, medium: Medium) -> tuple[int, int] | None:
        """(h, w)."""
        h, w = grid_after(self.steps, (medium.size[0], medium.size[1]))
        return h, w

    def tokens(self, medium: Medium) -> int:
        """h w places."""
        h, w = grid_after(self.steps, (medium.size[0], medium.size[1]))
        places: int = h * w
        return places

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, C, H, W] to [B, h, w, D]."""
        return run_grid_steps(self.steps, ChannelsLast("pixels")(x), "steps")

    def check(self) -> Iterator[Conflict]:
        """Conflict: steps that leave no place of the usual image."""
        yield from super().check()
        if not all(side > 0 for side in grid_after(self.steps, (self.image_size[0], self.image_size[1]))):
            what = "the steps leave no place of an image of image_size"
            yield Conflict("image-below-steps", "image_size", what, "give a larger one")


class VideoPatches(FrontEnd):
    """x = [class token; W block] + positions: blocks of `frames` x height x width pixels of a video.

    Tubelets of ViViT, arXiv:2103.15691 section 3.2. A video has the number of frames and the size of
    training; `positions` are a trained table, or sines and cosines of the place in the sequence (VideoMAE,
    arXiv:2203.12602).
    """

    group: ClassVar[str] = "patch_embedding"
    media: ClassVar[tuple[str, ...]] = ("video",)
    kind: Literal["video_patches"] = "video_patches"
    n_frames: Size
    image_size: Sides
    block: Annotated[tuple[Size, ...], Length(3, 3)]
    in_channels: Size = 3
    class_token: bool = True
    positions: Literal["learned", "sinusoidal"] = "learned"

    @property
    def usual(self) -> Medium:
        """A video of the size of training."""
        return Medium("video", (self.n_frames, *self.image_size))

    def medium(self, request: Request) -> Medium:
        """The video of a request; ArchError for one of another size than that of training."""
        medium = super().medium(request)
        if medium.size != self.usual.size:
            asked, known = (" x ".join(map(str, size)) for size in (medium.size, self.usual.size))
            what = f"a video of {asked} is not read: positions are those of {known}"
            raise ArchError(what, f"take {self.n_frames} frames, and resize them")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """Frames [B, T, C, H, W]."""
        frames, *sides = medium.size
        return InputSpec((batch_size, frames, self.in_channels, *sides), "features")

    def tokens(self, medium: Medium) -> int:
        """A token for each block, and the class token."""
        blocks = [size // side for size, side in zip(medium.size, self.block, strict=True)]
        return int(self.class_token) + blocks[0] * blocks[1] * blocks[2]

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, T, C, H, W] to [B, n, D]."""
        t, p, q = self.block
        y: Tensor = Linear("patches", d_model, True)(Tubelets("tubelets", (t, p, q))(x))
        y = PrependTokens("class_token")(y) if self.class_token else y
        if self.positions == "learned":
            table = Parameter("positions", (y.shape[1], d_model))(y, group=TABLE)
        else:
            table = Sinusoid("positions", d_model)(Positions("places")(y), group=TABLE)
        total: Tensor = Add("positions_add")(y, table)
        return total

    def check(self) -> Iterator[Conflict]:
        """Conflict: a block that does not fit into the video."""
        yield from super().check()
        if any(size < side for size, side in zip(self.usual.size, self.block, strict=True)):
            what = "a block is larger than the video"
            yield Conflict("block-above-video", "block", what, "give one that fits into it")
