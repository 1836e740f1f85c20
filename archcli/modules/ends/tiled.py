"""Patches of several tiles of an image, side by side in one sequence.

B batch, C channels, H and W height and width of a tile in pixels, t tiles, T tokens of a tile, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.ends.patches import TABLE, Patched
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.request import Medium, Request
from archcli.ops import AddTilePlaces, AddTileTable, Conv2d, FlattenGrid, PadTokens, PrependTokens, Regroup


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


__all__ = ["TiledPatches"]
