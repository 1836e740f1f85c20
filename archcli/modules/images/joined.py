"""JoinTiles: the vectors of all tiles of an image become one sequence with trained separators.

B batch, N tiles and an overview, h and w rows and columns of vectors in each, D width.
"""

from __future__ import annotations

from typing import Literal

from archcli.graph import Tensor
from archcli.modules.ends.projectors import Places, ProjectorStep
from archcli.modules.images.sizings import Pieces
from archcli.modules.spec.base import Size
from archcli.ops import JoinTiles


class JoinTilesStep(ProjectorStep):
    """Rows over all tiles, a separator, then the overview; a trained vector ends each row (Phi-4).

    `rows` and `columns` of tiles and those of `kept` patches, which `shrunk` x `shrunk` to a vector show the
    image, follow from its size.
    """

    kind: Literal["join_tiles"] = "join_tiles"
    rows: Size = 1
    columns: Size = 1
    kept: tuple[Size, ...] = ()
    shrunk: Size = 2

    def sized(self, pieces: Pieces, kept: tuple[int, int] | None) -> ProjectorStep:
        """The step for an image of these pieces."""
        return self.replace(rows=pieces.rows, columns=pieces.columns, kept=kept or ())

    def _shown(self, places: Places) -> Places:
        """Rows and columns of vectors over all tiles that show the image."""
        if not self.kept:
            return self.rows * places[0], self.columns * places[1]
        rows, columns = (-(-n // self.shrunk) for n in self.kept)
        return rows, columns

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B N, h w, D] to [B, H (W + 1) + 1 + h (w + 1), D], H and W over all tiles."""
        op = JoinTiles("join", (self.rows, self.columns), places, self._shown(places))
        joined: Tensor = op(x)
        return joined


__all__ = ["JoinTilesStep"]
