"""Mergers between layers, of windows of patches; steps that make tiles one sequence, or mark its rows.

B batch, T tokens, N tiles and an overview, h and w rows and columns of patches or vectors, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.arith import is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import Activation, GELUTanh
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept
from archcli.modules.spec.unread import Holder
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    Attend,
    Bidirectional,
    CutSpans,
    JoinSpans,
    JoinTiles,
    Linear,
    MeanTokens,
    MergeBlocks,
    MergeHeads,
    Positions,
    PrependTokens,
    Regroup,
    SplitHeads,
)
from archcli.wings.media.modules.ends.projectors import (
    GROUP,
    BlockStep,
    Pieces,
    Places,
    ProjectorStep,
    run_steps,
)


class WindowMergerStep(BlockStep):
    """Each `block` of patches attends to itself, x += A(N x), and becomes mean x + W2 act(W1 N [x, x, …]).

    MiniCPM-V 4.6. `d_ff` is the width between W1 and W2; all matrices have biases.
    """

    kind: Literal["window_merger"] = "window_merger"
    n_heads: Size
    d_ff: Size
    norm: Norm
    activation: Activation = GELUTanh()

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, (h // p) (w // q), D]; ArchError for places that are no whole blocks."""
        p, q = self.block
        if all(map(is_whole, places)) and (places[0] % p or places[1] % q):
            what = f"{places[0]} x {places[1]} patches are no whole windows of {p} x {q}"
            raise ArchError(what, "give an image whose sides are multiples of a window")
        rows, columns = self.places_after(places)
        width = x.shape[2]
        windows = Regroup("windows", p * q, width)(MergeBlocks("blocks", places, (p, q))(x))
        windows = Add("attention_residual")(windows, self._attended(self.norm(windows, name="norm")))
        joined = Regroup("joined", 1, p * q * width)(windows)
        hidden = Linear("up_proj", self.d_ff, True)(self.norm(joined, name="joined_norm"))
        y = Linear("down_proj", width, True)(self.activation(hidden, name="activation"))
        merged = Add("residual")(MeanTokens("mean", 0)(windows), y)
        tokens: Tensor = Regroup("tokens", rows * columns, width)(merged)
        return tokens

    def _attended(self, x: Tensor) -> Tensor:
        """Attention of the patches of each window to each other."""
        width = x.shape[2]
        q, k, v = (
            SplitHeads(f"{name}_heads", self.n_heads)(Linear(f"{name}_proj", width, True)(x))
            for name in ("q", "k", "v")
        )
        attend = Attend("attend", Bidirectional(), (width // self.n_heads) ** -0.5)
        mixed = attend(q, k, v, Positions("positions")(x))
        y: Tensor = Linear("o_proj", width, True)(MergeHeads("merge")(mixed))
        return y


class StepsBlock(Block):
    """y = S x: steps S of a projector between two layers, on patches in rows and columns.

    MiniCPM-V 4.6 merges patches behind its seventh layer. Layers behind it see fewer tokens.
    """

    kind: Literal["steps"] = "steps"
    steps: Annotated[tuple[ProjectorStep, ...], Length(least=1)]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to the tokens behind the steps; ArchError where x is no grid of patches."""
        self.hold(x)
        if context is None or context.grid is None:
            raise ArchError("steps between layers need an encoder that reads an image in patches")
        return run_steps(self.steps, x, context.grid, GROUP), None

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns behind all steps."""
        for step in self.steps:
            grid = step.places_after(grid)
        return grid

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network, in the place of which it has steps."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            what = "its steps stand in the place of a mixer and a network"
            yield Conflict("steps-parts", "ffn", what, "leave them out")


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


class RowEndsStep(ProjectorStep):
    """Put a trained vector behind each row of tokens (HunyuanOCR)."""

    kind: Literal["row_ends"] = "row_ends"

    def places_after(self, places: Places) -> Places:
        """A column more."""
        return places[0], places[1] + 1

    def tokens_after(self, tokens: int, places: Places) -> int:
        """A token for each place, and each row's end."""
        return places[0] * places[1]

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, h (w + 1), D]."""
        rows, columns = places
        ended = PrependTokens("end", after=columns)(CutSpans("rows", columns)(x))
        joined: Tensor = JoinSpans("joined", rows * (columns + 1))(ended)
        return joined


class FramedStep(ProjectorStep):
    """Put a trained vector before all tokens and another behind them (HunyuanOCR)."""

    kind: Literal["framed"] = "framed"

    def places_after(self, places: Places) -> Places:
        """A column of all tokens."""
        return places[0] * places[1] + 2, 1

    def tokens_after(self, tokens: int, places: Places) -> int:
        """T + 2."""
        return tokens + 2

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T + 2, D]."""
        begun = PrependTokens("begin")(x)
        framed: Tensor = PrependTokens("end", after=begun.shape[1])(begun)
        return framed
