"""Patches: an image becomes the tokens that an encoder reads.

B batch, C channels, H and W height and width in pixels, h and w rows and columns of patches, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Module, Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Length
from archcli.ops import Add, Conv2d, FlattenGrid, Parameter, PrependTokens, ResizeTable
from archcli.ops.grids.places import Resampling

Sides = Annotated[tuple[Size, ...], Length(2, 2)]
"""Two sizes: height and width."""
TABLE = "position_embedding"


class FrontEnd(Module):
    """What turns images or sounds into vectors [B, T, D], which the layers of an encoder read."""

    family: ClassVar[str] = "front_end"
    default_kind: ClassVar[str] = "patches"
    part: ClassVar[str] = "vision_tower"
    """What a whole model calls an encoder with this front end."""
    media: ClassVar[tuple[str, ...]] = ("image",)
    """The kinds of `Medium` that it reads."""

    @property
    def usual(self) -> Medium:
        """The medium that is read where a request names none."""
        raise NotImplementedError

    def medium(self, request: Request) -> Medium:
        """The first medium of a request, else the usual one; ArchError for a kind that is not read."""
        if not request.media:
            return self.usual
        medium = request.media[0]
        if medium.kind not in self.media:
            raise ArchError(f"this encoder reads no {medium.kind}", f"it reads {' or '.join(self.media)}")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """The tensor that is read of a medium."""
        raise NotImplementedError

    def tokens(self, medium: Medium) -> int:
        """How many vectors T a medium becomes."""
        raise NotImplementedError

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """What is read to vectors [B, T, D]."""
        raise NotImplementedError


class PatchEmbedding(FrontEnd):
    """x = [class tokens; registers; W patch] + positions, then a norm if there is one.

    Dosovitskiy et al. 2020, arXiv:2010.11929 section 3.1. W is a convolution whose stride is its kernel: a
    product with each patch of C patch_size pixels. `image_size` is that of training; `class_tokens` stand in
    front (ViT 1, DeiT with its teacher's 2, SigLIP 0), then `registers`, which have no position (DINOv2,
    arXiv:2309.16588). `position` learned is a table with a row for each patch, with `places_classes` one for
    each class token too; for an image of another size `resize` interpolates its rows, `antialias` as torch
    does. `norm` follows the positions (CLIP), with `norms_patches` it comes before them (AIMv2).
    """

    group: ClassVar[str] = "patch_embedding"
    kind: Literal["patches"] = "patches"
    image_size: Sides
    patch_size: Sides
    in_channels: Size = 3
    bias: bool = True
    class_tokens: Count = 1
    registers: Count = 0
    position: Literal["learned", "none"] = "learned"
    places_classes: bool = True
    resize: Resampling | None = "bicubic"
    antialias: bool = False
    norm: Norm | None = None
    norms_patches: bool = False

    @property
    def usual(self) -> Medium:
        """An image of the size of training."""
        return Medium("image", self.image_size)

    @property
    def leading(self) -> int:
        """How many tokens stand before those of patches."""
        return self.class_tokens + self.registers

    def grid(self, sides: tuple[int, ...]) -> tuple[int, int]:
        """(h, w) of an image of these sides; what is left of a patch at the border is not read."""
        return sides[0] // self.patch_size[0], sides[1] // self.patch_size[1]

    def medium(self, request: Request) -> Medium:
        """The image of a request; ArchError for one that is smaller than a patch, or of a size not read."""
        medium = super().medium(request)
        height, width = medium.size
        if not all(self.grid(medium.size)):
            raise ArchError(f"an image of {height} x {width} is smaller than a patch", "give a larger one")
        if self.position == "learned" and self.resize is None and medium.size != self.image_size:
            usual = " x ".join(map(str, self.image_size))
            what = f"an image of {height} x {width} has no positions: the table is for {usual}"
            raise ArchError(what, f"resize the image to {usual}")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """Pixels [B, C, H, W]."""
        return InputSpec((batch_size, self.in_channels, *medium.size), "features")

    def tokens(self, medium: Medium) -> int:
        """h w patches, and the tokens in front of them."""
        h, w = self.grid(medium.size)
        return self.leading + h * w

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, C, H, W] to [B, T, D]."""
        patch = (self.patch_size[0], self.patch_size[1])
        grid = Conv2d("patches", d_model, patch, patch, bias=self.bias)(x)
        places = (grid.shape[2], grid.shape[3])
        y: Tensor = FlattenGrid("flatten")(grid)
        y = self._normalized(y) if self.norms_patches else y
        first = self.position == "learned" and not self.places_classes
        y = self._placed(y, places, 0) if first else y
        y = PrependTokens("class_tokens", self.class_tokens)(y) if self.class_tokens else y
        if self.position == "learned" and not first:
            y = self._placed(y, places, self.class_tokens)
        y = PrependTokens("registers", self.registers, self.class_tokens)(y) if self.registers else y
        return y if self.norms_patches else self._normalized(y)

    def _normalized(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.norm is None else self.norm(x, name="norm")
        return y

    def _placed(self, x: Tensor, places: tuple[Number, Number], leading: int) -> Tensor:
        """x [B, T, D] plus the table of positions, whose first `leading` rows are of class tokens."""
        before = self.grid(self.image_size)
        table = Parameter("positions", (leading + before[0] * before[1], x.shape[-1]))(x, group=TABLE)
        if places != before and self.resize is not None:
            resized = ResizeTable("resize", before, places, leading, self.resize, self.antialias)
            table = resized(table, group=TABLE)
        total: Tensor = Add("positions_add")(x, table)
        return total

    def check(self) -> Iterator[Conflict]:
        """Conflict: an image that is smaller than a patch."""
        yield from super().check()
        if not all(self.grid(self.image_size)):
            what = "image_size is smaller than patch_size"
            yield Conflict("image-below-patch", "image_size", what, "give a patch that fits into the image")


__all__ = ["FrontEnd", "PatchEmbedding"]
