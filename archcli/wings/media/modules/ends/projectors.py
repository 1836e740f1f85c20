"""Projectors: steps from the vectors of a tower to those that a language model reads.

B batch, T tokens, D width, h and w rows and columns of patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from archcli.arith import ceil_div
from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Count, Module, Size
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    Attend,
    Bidirectional,
    Concat,
    Conv2d,
    CutSpans,
    DropTokens,
    FlattenGrid,
    JoinSpans,
    Linear,
    MergeBlocks,
    MergeHeads,
    Parameter,
    PoolBlocks,
    Positions,
    RepeatBatch,
    SplitHeads,
    UnflattenGrid,
)

Block = Annotated[tuple[Size, ...], Length(2, 2)]
"""Rows and columns of a block of patches; (n, 1) are n tokens of a sequence."""
Places = tuple[int, int]
GROUP = "projector"


class Pieces(NamedTuple):
    """An image as a tower reads it: `number` pieces of `size` pixels, height and width.

    `rows` and `columns` say how many of them lie side by side; an overview is one more. `others` are pieces
    of other sizes: how many, and which.
    """

    number: int
    size: tuple[int, int]
    rows: int = 1
    columns: int = 1
    others: tuple[tuple[int, tuple[int, int]], ...] = ()


class ProjectorStep(Module):
    """A step of a projector, from [B, T, D] to other tokens or another width."""

    family: ClassVar[str] = "projector_step"
    default_kind: ClassVar[str] = "linear"
    group: ClassVar[str] = GROUP

    def places_after(self, places: Places) -> Places:
        """Rows and columns behind the step."""
        return places

    def tokens_after(self, tokens: int, places: Places) -> int:
        """Tokens behind the step, of so many before it; `places` are those behind it."""
        return tokens

    def sized(self, pieces: Pieces, kept: Places | None) -> ProjectorStep:
        """The step for an image of these pieces, of which so many rows and columns of patches are kept."""
        return self

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] of patches in so many rows and columns to the tokens behind the step."""
        raise NotImplementedError


class DropStep(ProjectorStep):
    """Leave out the first `number` tokens, which are those of classes, not of patches."""

    kind: Literal["drop"] = "drop"
    number: Size = 1

    def tokens_after(self, tokens: int, places: Places) -> int:
        """T - number."""
        return tokens - self.number

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T - number, D]."""
        kept: Tensor = DropTokens("drop", self.number)(x)
        return kept


class BlockStep(ProjectorStep):
    """A step that makes one token of each `block` of patches."""

    block: Block = (2, 2)

    def places_after(self, places: Places) -> Places:
        """Blocks in rows and columns; what fills none is left out."""
        return places[0] // self.block[0], places[1] // self.block[1]

    def tokens_after(self, tokens: int, places: Places) -> int:
        """A token for each block."""
        return places[0] * places[1]


class MergeStep(BlockStep):
    """Make one token of each `block` of patches, side by side: pixel shuffle, a patch merger."""

    kind: Literal["merge"] = "merge"

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, (h // p) (w // q), p q D]."""
        merged: Tensor = MergeBlocks("merge", places, (self.block[0], self.block[1]))(x)
        return merged


class PoolStep(BlockStep):
    """The mean of each `block` of patches (Gemma 3)."""

    kind: Literal["pool"] = "pool"

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, (h // p) (w // q), D]."""
        pooled: Tensor = PoolBlocks("pool", places, (self.block[0], self.block[1]))(x)
        return pooled


class ConvolveStep(ProjectorStep):
    """A convolution over rows and columns with `kernel`, `stride` and `padding` on both sides (Step 3.7)."""

    kind: Literal["convolve"] = "convolve"
    width: Size
    kernel: Size = 3
    stride: Size = 1
    padding: Count = 0
    bias: bool = True

    def places_after(self, places: Places) -> Places:
        """Places of the kernel in rows and columns."""
        rows, columns = ((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in places)
        return rows, columns

    def tokens_after(self, tokens: int, places: Places) -> int:
        """A token for each place."""
        return places[0] * places[1]

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, h' w', width]."""
        kernel, step, around = ((n, n) for n in (self.kernel, self.stride, self.padding))
        conv = Conv2d("conv", self.width, kernel, step, around, bias=self.bias)
        convolved = conv(UnflattenGrid("grid", places)(x))
        flat: Tensor = FlattenGrid("flatten")(convolved)
        return flat


class NormStep(ProjectorStep):
    """A norm of each token."""

    kind: Literal["norm"] = "norm"
    norm: Norm

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        normed: Tensor = self.norm(x, name="norm")
        return normed


class LinearStep(ProjectorStep):
    """W x + b of each token, `width` wide."""

    kind: Literal["linear"] = "linear"
    width: Size
    bias: bool = True

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, width]."""
        y: Tensor = Linear("linear", self.width, self.bias)(x)
        return y


class ActivationStep(ProjectorStep):
    """An activation function."""

    kind: Literal["activation"] = "activation"
    activation: Activation = GELU()

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        y: Tensor = self.activation(x, name="activation")
        return y


class RepeatStep(ProjectorStep):
    """Each token's numbers twice, side by side, as those of two equal frames (ERNIE 4.5 VL)."""

    kind: Literal["repeat"] = "repeat"

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, 2 D]."""
        twice: Tensor = Concat("repeat")(x, x)
        return twice


class NetworkStep(ProjectorStep):
    """A feed-forward network of each token, without a residual (GLM-4V)."""

    kind: Literal["network"] = "network"
    ffn: FeedForward

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        y: Tensor = self.ffn(x, name="ffn")
        return y


class QueryWindowsStep(ProjectorStep):
    """`queries` trained vectors look at each window of `window` tokens, through `n_layers` layers.

    Granite Speech: a Q-Former (BLIP-2, arXiv:2301.12597 section 3.1) on 15 tokens at a time. A layer is
    attention among the queries, attention to the window, and a network, each x = N(x + F x). Queries stay one
    set until they first meet a window. The last window is padded with zeros.
    """

    kind: Literal["query_windows"] = "query_windows"
    window: Size = 15
    queries: Size = 3
    n_layers: Size = 2
    n_heads: Size
    norm: Norm
    ffn: FeedForward

    def places_after(self, places: Places) -> Places:
        """A column of all queries."""
        return ceil_div(places[0] * places[1], self.window) * self.queries, 1

    def tokens_after(self, tokens: int, places: Places) -> int:
        """So many queries for each window."""
        return places[0] * places[1]

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, n queries, D] of n windows."""
        windows = CutSpans("windows", self.window)(x)
        y = Parameter("queries", (1, self.queries, x.shape[-1]))(x)
        y = self.norm(y, name="norm")
        for i in range(self.n_layers):
            y = self._attended(y, y, f"self{i}")
            y = self._attended(y, windows, f"cross{i}", first=i == 0)
            y = self.norm(Add(f"ffn{i}_residual")(y, self.ffn(y, name=f"ffn{i}")), name=f"ffn{i}_norm")
        joined: Tensor = JoinSpans("joined", self.places_after((x.shape[1], 1))[0])(y)
        return joined

    def _attended(self, x: Tensor, source: Tensor, name: str, *, first: bool = False) -> Tensor:
        """N(x + attention of x to the source); the `first` source has more sequences than x."""
        d = x.shape[-1]
        q, k, v = (
            SplitHeads(f"{name}_{which}_heads", self.n_heads)(Linear(f"{name}_{which}_proj", d, True)(read))
            for which, read in (("q", x), ("k", source), ("v", source))
        )
        if first:
            x, q = RepeatBatch(f"{name}_repeat")(x, source), RepeatBatch(f"{name}_q_repeat")(q, source)
        scale = (d // self.n_heads) ** -0.5
        mixed = Attend(f"{name}_attend", Bidirectional(), scale)(q, k, v, Positions(f"{name}_positions")(x))
        y = Linear(f"{name}_o_proj", d, True)(MergeHeads(f"{name}_merge")(mixed))
        return self.norm(Add(f"{name}_residual")(x, y), name=f"{name}_norm")


def side_by_side(x: Tensor, others: Sequence[Tensor]) -> Tensor:
    """x [B, T, D] and the numbers of n others [B, T, D] behind it, those of each place together."""
    d = x.shape[-1]
    first, *rest = (SplitHeads(f"beside{i}", d)(grid) for i, grid in enumerate(others))
    for i, more in enumerate(rest, 1):
        first = Concat(f"with{i}")(first, more)
    y: Tensor = Concat("beside")(x, MergeHeads("beside_merge")(first))
    return y


def run_steps(steps: tuple[ProjectorStep, ...], x: Tensor, places: Places, name: str) -> Tensor:
    """The tokens behind all steps, each called `name`.number."""
    for number, step in enumerate(steps):
        x = step(x, places, name=f"{name}.{number}")
        places = step.places_after(places)
    return x
