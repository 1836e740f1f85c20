"""Patches: an image becomes the tokens that an encoder reads.

B batch, C channels, H and W height and width in pixels, h and w rows and columns of patches, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, Shape
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Module, Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    AddTilePlaces,
    AddTileTable,
    AxisTables,
    ChannelsLast,
    Conv2d,
    FlattenGrid,
    GridCoordinates,
    Linear,
    Lookup,
    PadTokens,
    Parameter,
    Patchify,
    Positions,
    PrependTokens,
    Regroup,
    ResizeTable,
    TakeTokens,
)
from archcli.wings.media.ops.places import Resampling

Sides = Annotated[tuple[Size, ...], Length(2, 2)]
"""Two sizes: height and width."""
TABLE = "position_embedding"
AXES = 3
"""Axes of a spectrogram; an image has one more."""


class FrontEnd(Module):
    """What turns images or sounds into vectors [B, T, D], which the layers of an encoder read."""

    family: ClassVar[str] = "front_end"
    default_kind: ClassVar[str] = "patches"
    part: ClassVar[str] = "vision_tower"
    """What a whole model calls an encoder with this front end."""
    media: ClassVar[tuple[str, ...]] = ("image",)
    """The kinds of `Medium` that it reads."""
    causal: ClassVar[bool] = False
    """Whether a vector goes by earlier ones alone, as those of the layers behind it then do."""

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

    def places_of(self, medium: Medium) -> tuple[int, int] | None:
        """Rows and columns of the grid that a medium becomes; None where it becomes a sequence."""
        return None

    def grid_read(self, shape: Shape) -> Any:
        """Rows and columns of patches of what is read; None of what has no patches."""
        return None

    def places(self, x: Tensor, y: Tensor) -> Tensor | None:
        """Coordinates [T, 2] of the vectors y that x became; None where their order alone counts."""
        return None

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """What is read to vectors [B, T, D]."""
        raise NotImplementedError


class Patched(FrontEnd):
    """x = [class token; W patch] + positions, then a norm if there is one, and registers.

    Dosovitskiy et al. 2020, arXiv:2010.11929 section 3.1. W is a convolution whose stride is its kernel: a
    product with each patch of C patch_size pixels; `flat` stores it as the matrix of that product (SigLIP 2
    NaFlex). `stride` lets patches overlap (AST). `image_size` is that of training. `class_token` is a
    trained vector in front, or `class_tokens` of them (Pixio), `teacher_token` a further one (DeiT,
    arXiv:2012.12877 section 4), `registers` follow them and have no position (arXiv:2309.16588). `position`
    learned is a table with a row for each token but registers, axes are tables of `axis_entries` rows for
    columns and for rows (Gemma 4); `frozen` positions are stored and not trained. For an image of another
    size `resize` interpolates its rows, `antialias` as torch does, `corners` by centers of corners in the
    place of edges, `squared` for a square of the longer side, which is cut (RADIO); without `resize` no other
    size is read. `norm` follows the positions (CLIP), with
    `norms_patches` it comes before them (AIMv2). `coordinates` centers gives layers the centers of patches,
    from -1 to 1 (DINOv3), grid their rows and columns; order the place in the sequence alone. `keeps_grid`
    gives layers a grid [B, h, w, D] in the place of a sequence (ConvNeXt), `padding` zeros around the image
    first (DaViT). With `whole` no image is read that leaves a part of a patch. Of the patches `kept` go on,
    which training draws at random, and a pass takes from the first on (MAE, arXiv:2111.06377).
    """

    group: ClassVar[str] = "patch_embedding"
    image_size: Sides
    patch_size: Sides
    stride: Sides | None = None
    padding: Count = 0
    in_channels: Size = 3
    flat: bool = False
    bias: bool = True
    class_token: bool = True
    class_tokens: Size | None = None
    teacher_token: bool = False
    registers: Count = 0
    position: Literal["learned", "axes", "none"] = "learned"
    frozen: bool = False
    axis_entries: Size = 1024
    coordinates: Literal["order", "centers", "grid"] = "order"
    resize: Resampling | None = "bicubic"
    antialias: bool = False
    corners: bool = False
    squared: bool = False
    norm: Norm | None = None
    norms_patches: bool = False
    keeps_grid: bool = False
    whole: bool = False
    resized: Sides | None = None
    kept: Size | None = None

    @property
    def usual(self) -> Medium:
        """An image of the size that all are resized to, or of that of training."""
        return Medium("image", self.resized or self.image_size)

    @property
    def leading(self) -> int:
        """How many tokens stand before those of patches."""
        return self.placed + self.registers

    @property
    def placed(self) -> int:
        """How many tokens in front have a row in the table of positions."""
        several = self.class_tokens or 1
        return several * int(self.class_token) + int(self.teacher_token)

    def grid(self, sides: tuple[int, ...]) -> tuple[int, int]:
        """(h, w) of an image of these sides; what is left of a patch at the border is not read."""
        steps = zip(sides, self.patch_size, self.stride or self.patch_size, strict=True)
        around = 2 * self.padding
        h, w = (
            (side + around - patch) // step + 1 if side + around >= patch else 0
            for side, patch, step in steps
        )
        return h, w

    def medium(self, request: Request) -> Medium:
        """The image of a request; ArchError for one that is smaller than a patch, or of a size not read."""
        medium = super().medium(request)
        medium = medium if self.resized is None else self.usual
        height, width = medium.size
        if not all(self.grid(medium.size)):
            raise ArchError(f"an image of {height} x {width} is smaller than a patch", "give a larger one")
        if self.resize is None and medium.size != self.image_size:
            usual = " x ".join(map(str, self.image_size))
            what = f"an image of {height} x {width} is not read: positions are those of {usual}"
            raise ArchError(what, f"resize the image to {usual}")
        if self.whole and any(side % patch for side, patch in zip(medium.size, self.patch_size, strict=True)):
            what = f"an image of {height} x {width} is no whole number of patches"
            raise ArchError(what, f"sides are multiples of {' and '.join(map(str, self.patch_size))}")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """Pixels [B, C, H, W]."""
        return InputSpec((batch_size, self.in_channels, *medium.size), "features")

    def grid_read(self, shape: Shape) -> Any:
        """(h, w) of [B, C, H, W]."""
        return self.grid(shape[2:])

    def places_of(self, medium: Medium) -> tuple[int, int] | None:
        """(h, w) where layers are given a grid."""
        return self.grid(medium.size) if self.keeps_grid else None

    def tokens(self, medium: Medium) -> int:
        """h w patches or those that are kept, and the tokens in front of them."""
        h, w = self.grid(medium.size)
        return self.leading + (h * w if self.kept is None else self.kept)

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, C, H, W] to [B, T, D]."""
        patch = (self.patch_size[0], self.patch_size[1])
        h, w = self.grid(x.shape[2:])
        y: Tensor
        stride = patch if self.stride is None else (self.stride[0], self.stride[1])
        around = (self.padding, self.padding)
        conv = Conv2d("patches", d_model, patch, stride, around, bias=self.bias)
        if self.keeps_grid:
            return self._normalized(self._on_grid(ChannelsLast("grid")(conv(x))))
        if self.flat:
            y = Linear("patches", d_model, self.bias)(Patchify("patchify", patch)(x))
        else:
            y = FlattenGrid("flatten")(conv(x))
        y = self._normalized(y) if self.norms_patches else y
        y = PrependTokens("class_token", self.class_tokens)(y) if self.class_token else y
        y = PrependTokens("teacher_token", after=1)(y) if self.teacher_token else y
        if self.position == "axes":
            y = Add("positions_add")(y, AxisTables("positions", self.axis_entries, (h, w))(y, group=TABLE))
        y = self._placed(y, (h, w)) if self.position == "learned" else y
        y = y if self.norms_patches else self._normalized(y)
        y = y if self.kept is None else TakeTokens("kept", self.placed + self.kept)(y)
        return PrependTokens("registers", self.registers, self.placed)(y) if self.registers else y

    def places(self, x: Tensor, y: Tensor) -> Tensor | None:
        """Coordinates [T, 2], which are 0 for the tokens in front, if layers are to have them."""
        if self.coordinates == "order":
            return None
        h, w = self.grid(x.shape[2:])
        places: Tensor = GridCoordinates("places", (h, w), self.leading, self.coordinates == "centers")(y)
        return places

    def _normalized(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.norm is None else self.norm(x, name="norm")
        return y

    def _on_grid(self, x: Tensor) -> Tensor:
        """x [B, h, w, D] plus the table of positions, if there is one."""
        if self.position == "none":
            return x
        h, w = self.grid(self.image_size)
        table = Parameter("positions", (h, w, x.shape[-1]))(x, group=TABLE)
        total: Tensor = Add("positions_add")(x, table)
        return total

    def _placed(self, x: Tensor, places: tuple[Number, Number]) -> Tensor:
        """x [B, T, D] plus the table of positions, whose first rows are those of class tokens."""
        before, leading = self.grid(self.image_size), self.placed
        rows = leading + before[0] * before[1]
        if self.frozen:
            stored = Lookup("positions", rows, x.shape[-1], frozen=True)
            looked_up = stored(Positions("order")(x), group="frozen_positional")
            placed: Tensor = Add("positions_add")(x, looked_up)
            return placed
        table = Parameter("positions", (rows, x.shape[-1]))(x, group=TABLE)
        if places != before and self.resize is not None:
            how = (self.resize, self.antialias, self.corners, self.squared)
            resized = ResizeTable("resize", before, places, leading, *how)
            table = resized(table, group=TABLE)
        total: Tensor = Add("positions_add")(x, table)
        return total

    def check(self) -> Iterator[Conflict]:
        """Conflict: an image that is smaller than a patch."""
        yield from super().check()
        if not all(self.grid(self.image_size)):
            what = "image_size is smaller than patch_size"
            yield Conflict("image-below-patch", "image_size", what, "give a patch that fits into the image")
        placed = self.position != "none" and self.resize is not None
        if self.keeps_grid and (self.leading or placed or self.flat):
            what = "a grid has no tokens in front, no positions that are resized, and convolved patches"
            hint = "write class_token: false, and position: none or resize: null"
            yield Conflict("grid-alone", "keeps_grid", what, hint)
        if self.frozen and (self.position != "learned" or self.resize is not None or self.keeps_grid):
            what = "frozen positions are a table of the image of training"
            yield Conflict("frozen-positions", "frozen", what, "write resize: null, and position: learned")
        h, w = self.grid(self.image_size)
        if self.kept is not None and (self.keeps_grid or self.coordinates != "order" or self.kept > h * w):
            what = f"kept patches are a sequence of at most {h * w}, without coordinates"
            yield Conflict("kept-patches", "kept", what, "leave it out, or state fewer")


class PatchEmbedding(Patched):
    """Patches of an image, as `Patched` says."""

    kind: Literal["patches"] = "patches"


class TiledPatches(Patched):
    """`tiles` tiles of `image_size`, one below the other, in one sequence.

    Each has a class token, and is padded to a multiple of `multiple` tokens.
    Llama 3.2 Vision, arXiv:2407.21783 section 7.1: patches get a vector of their tile, then trained positions
    P and Q[tile] by a trained share, for `arrangements` of tiles; a norm follows.
    """

    kind: Literal["tiled_patches"] = "tiled_patches"
    tiles: Size
    arrangements: Size
    multiple: Size = 8

    @property
    def usual(self) -> Medium:
        """All tiles."""
        return Medium("image", (self.tiles * self.image_size[0], self.image_size[1]))

    @property
    def of_tile(self) -> int:
        """Tokens of a tile without padding."""
        h, w = self.grid(self.image_size)
        return 1 + h * w

    @property
    def missing(self) -> int:
        """Vectors of padding of a tile."""
        return -self.of_tile % self.multiple

    def medium(self, request: Request) -> Medium:
        """All tiles as one image; ArchError for any other size."""
        if request.media and request.media[0] != self.usual:
            height, width = self.usual.size
            kind, size = request.media[0]
            what = (
                f"{kind} {' x '.join(map(str, size))} is not read: {self.tiles} tiles are {height} x {width}"
            )
            raise ArchError(what, "put tiles one below the other")
        return self.usual

    def tokens(self, medium: Medium) -> int:
        """t (T + padding)."""
        return self.tiles * (self.of_tile + self.missing)

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, C, t H, W] to [B, t (T + padding), D]."""
        patch = (self.patch_size[0], self.patch_size[1])
        y = FlattenGrid("flatten")(Conv2d("patches", d_model, patch, patch, bias=self.bias)(x))
        y = Regroup("tiles", self.of_tile - 1, d_model)(y)
        y = AddTileTable("tile_embedding", self.tiles, self.arrangements)(y, group=TABLE)
        y = PrependTokens("class_token")(y)
        y = self._normalized(AddTilePlaces("positions", self.tiles, self.arrangements)(y, group=TABLE))
        y = PadTokens("pad", self.missing)(y) if self.missing else y
        together: Tensor = Regroup("together", self.tiles * (self.of_tile + self.missing), d_model)(y)
        return together

    def check(self) -> Iterator[Conflict]:
        """Conflict: fields of patches that tiles have no use for."""
        yield from super().check()
        usual = {"class_token": True, "position": "learned", "coordinates": "order"}
        plain = all(getattr(self, key) == value for key, value in usual.items())
        if not plain or self.teacher_token or self.registers or self.flat or self.stride or self.keeps_grid:
            what = "tiles have a class token each, trained positions, and patches side by side"
            yield Conflict("tiles-alike", "tiles", what, "leave other fields of patches out")
