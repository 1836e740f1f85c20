"""Steps of projectors that gather: queries that read a tower's vectors, layers side by side, tables.

B batch, T tokens, D width, n queries, h and w rows and columns of patches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.arith import ceil_div, is_whole
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.cross import CrossAttention
from archcli.modules.models.stack import Group
from archcli.modules.networks.activation import Activation, SiLU
from archcli.modules.networks.ffn import Branch
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.unread import Holder
from archcli.modules.spec.values import Length
from archcli.ops import (
    AddGridTables,
    Attend,
    Bidirectional,
    Concat,
    ConcatTokens,
    Linear,
    MeanTokens,
    MergeBlocks,
    MergeHeads,
    Multiply,
    Positions,
    Regroup,
    Softmax,
    SplitHeads,
    TakeTokens,
    TrainedTokens,
    Widen,
)
from archcli.wings.media.modules.ends.projectors import BlockStep, Places, ProjectorStep

Pair = Annotated[tuple[Size, ...], Length(2, 2)]
"""How many patches, and how many queries they are read by."""
SINES = 4
"""Sines and cosines of a row and of a column."""


class QueriesStep(Holder, ProjectorStep):
    """`number` trained queries, `width` wide, read the tokens through layers, and take their place.

    Q-Former: layers with attention among queries and, every other one, cross attention; `norm` comes before
    them (BLIP-2, arXiv:2301.12597 section 3.1). Perceiver: layers of kind perceiver, `final_norm` behind them
    (arXiv:2204.14198). `width` left out is that of the tokens.
    """

    kind: Literal["queries"] = "queries"
    number: Size
    width: Size | None = None
    norm: Norm | None = None
    groups: Annotated[tuple[Group, ...], Length(least=1)]
    final_norm: Norm | None = None

    def tokens_after(self, tokens: int, places: Places) -> int:
        """n."""
        return self.number

    def places_after(self, places: Places) -> Places:
        """A sequence of queries."""
        return (self.number, 1)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, n, W]."""
        self.hold(x)
        y = TrainedTokens("queries", self.number, self.width)(x)
        y = y if self.norm is None else self.norm(y, name="norm")
        context = Context(Positions("positions")(y), memory=x)
        start = 0
        for group in self.groups:
            y, _ = group.run(y, context, start)
            start += group.n_layers
        return y if self.final_norm is None else self.final_norm(y, name="final_norm")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the layers with the width of queries."""
        width = d_model if self.width is None else self.width
        for i, group in enumerate(self.groups):
            yield from (conflict.below(f"groups.{i}") for conflict in group.check_width(width))


class LatentsStep(ProjectorStep):
    """`number` trained queries read the tokens and themselves once, without a residual (Kosmos-2)."""

    kind: Literal["latents"] = "latents"
    number: Size
    attention: CrossAttention

    def tokens_after(self, tokens: int, places: Places) -> int:
        """n."""
        return self.number

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, n, D]."""
        q = TrainedTokens("queries", self.number)(x)
        context = Context(Positions("positions")(q), memory=ConcatTokens("read")(x, q))
        y, _ = self.attention(q, context, name="attention")
        return y


class TableStep(ProjectorStep):
    """E softmax(x): each token as a mixture of vectors of a table, `width` wide (Ovis, arXiv:2405.20797).

    `beside` further rows of the table have no share.
    """

    kind: Literal["table"] = "table"
    width: Size
    beside: Count = 0

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, width]."""
        shares = Softmax("softmax")(x)
        y: Tensor = Linear("table", self.width)(
            Widen("widen", self.beside)(shares) if self.beside else shares
        )
        return y


class ReadingStep(ProjectorStep):
    """W softmax(q k^T) v: trained queries read the tokens once, both normalized by `norm` before (Aria).

    Queries, keys and values pass two matrices each, the first without a bias, and the result two as well
    (arXiv:2410.05993 section 2.2). `queries` says how many of the trained ones read so many patches.
    """

    kind: Literal["reading"] = "reading"
    n_heads: Size
    norm: Norm
    queries: Annotated[tuple[Pair, ...], Length(least=1)]

    @property
    def trained(self) -> int:
        """How many queries there are."""
        return max(number for _, number in self.queries)

    def tokens_after(self, tokens: int, places: Places) -> int:
        """n; ArchError for a number of patches that has none."""
        for known, number in self.queries:
            if known == tokens:
                return number
        known_ones = " or ".join(f"{known:,}" for known, _ in self.queries)
        raise ArchError(f"{tokens:,} patches are not read", f"the projector reads {known_ones} of them")

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, n, D]."""
        # an image that is not read has no tokens, but weights
        d = x.shape[2]
        number = next((number for known, number in self.queries if known == x.shape[1]), self.trained)
        every = TrainedTokens("queries", self.trained)(x)
        q = self.norm(TakeTokens("taken", number)(every), name="queries_norm")
        tokens = self.norm(x, name="norm")
        heads = []
        for name, read in (("q", q), ("k", tokens), ("v", tokens)):
            inner = Linear(f"{name}_in", d, True)(Linear(f"{name}_proj", d)(read))
            heads.append(SplitHeads(f"{name}_heads", self.n_heads)(inner))
        scale = (d // self.n_heads) ** -0.5
        mixed = Attend("attend", Bidirectional(), scale)(*heads, Positions("positions")(q))
        y: Tensor = Linear("linear", d, True)(Linear("o_proj", d, True)(MergeHeads("merge")(mixed)))
        return y


class AttentionPoolStep(BlockStep):
    """One token of each `block` of patches: attention whose query is their mean (Molmo, arXiv:2409.17146).

    A block at the border that is not full has a token, too. `bias` is of all four matrices.
    """

    kind: Literal["attention_pool"] = "attention_pool"
    n_heads: Size
    n_kv_heads: Size | None = None
    head_dim: Size
    width: Size
    bias: bool = True

    def places_after(self, places: Places) -> Places:
        """Blocks in rows and columns, those at the border included."""
        return ceil_div(places[0], self.block[0]), ceil_div(places[1], self.block[1])

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, blocks, W]."""
        p, q = self.block
        rows, columns = self.places_after(places)
        blocks = MergeBlocks("blocks", places, (p, q), whole=False)(x)
        patches = Regroup("patches", p * q, x.shape[2])(blocks)
        query = MeanTokens("mean", 0)(patches)
        kv_heads = self.n_heads if self.n_kv_heads is None else self.n_kv_heads
        parts = (("q", query, self.n_heads), ("k", patches, kv_heads), ("v", patches, kv_heads))
        heads = [
            SplitHeads(f"{name}_heads", n)(Linear(f"{name}_proj", n * self.head_dim, self.bias)(read))
            for name, read, n in parts
        ]
        op = Attend("attend", Bidirectional(), self.head_dim**-0.5)
        mixed = op(*heads, Positions("positions")(query))
        y = Linear("o_proj", self.width, self.bias)(MergeHeads("merge")(mixed))
        pooled: Tensor = Regroup("tokens", rows * columns, self.width)(y)
        return pooled


class GatedStep(ProjectorStep):
    """down(act(gate x) * up x) of each token, `width` wide, d_ff between. Shazeer 2020, arXiv:2002.05202.

    Differs from a network of kind glu in its width. `bias` true biases all three, a list those it names.
    """

    kind: Literal["gated"] = "gated"
    d_ff: Size
    width: Size
    activation: Activation = SiLU()
    bias: bool | tuple[Branch, ...] = False

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, width]."""
        gate = self.activation(Linear("gate_proj", self.d_ff, self._biased("gate"))(x), name="activation")
        hidden = Multiply("gated")(gate, Linear("up_proj", self.d_ff, self._biased("up"))(x))
        y: Tensor = Linear("down_proj", self.width, self._biased("down"))(hidden)
        return y

    def _biased(self, which: Branch) -> bool:
        return self.bias if isinstance(self.bias, bool) else which in self.bias


class LayersStep(ProjectorStep):
    """Vectors of `number` layers of the tower side by side: those of the last stand for all of them."""

    kind: Literal["layers"] = "layers"
    number: Size

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T, n D]."""
        y = x
        for i in range(1, self.number):
            y = Concat(f"beside{i}")(y, x)
        return y


class KeepStep(ProjectorStep):
    """The first `number` of each `of` tokens: padding of tiles is left out."""

    kind: Literal["keep"] = "keep"
    number: Size
    of: Size

    def tokens_after(self, tokens: int, places: Places) -> int:
        """T number / of."""
        return tokens // self.of * self.number

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, T number / of, D]."""
        _, tokens, width = x.shape
        kept = TakeTokens("kept", self.number)(Regroup("tiles", self.of, width)(x))
        y: Tensor = Regroup("together", tokens // self.of * self.number, width)(kept)
        return y

    def check(self) -> Iterator[Conflict]:
        """Conflict: more tokens than there are."""
        yield from super().check()
        if self.number > self.of:
            yield Conflict("keep-more", "number", f"there are {self.of} tokens to keep of", "state fewer")


class GridTablesStep(ProjectorStep):
    """Add trained vectors of `entries` rows and columns, half as wide each; without entries sinusoids.

    With `frame` the sinusoids of a first frame too. Florence-2, arXiv:2311.06242. Sinusoids of columns come
    before those of rows (Granite Docling).
    """

    kind: Literal["grid_tables"] = "grid_tables"
    entries: Size | None = None
    frame: bool = True

    def tokens_after(self, tokens: int, places: Places) -> int:
        """T; ArchError where a table is too short."""
        if self.entries is not None and max(places) > self.entries:
            what = f"an image of {places[0]} x {places[1]} places is not read: tables have {self.entries}"
            raise ArchError(what, "give a smaller image")
        return tokens

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, h w, D] to [B, h w, D]; ArchError for sinusoids of a width that four does not divide."""
        if self.entries is None and is_whole(x.shape[2]) and x.shape[2] % SINES:
            what = f"sinusoids of rows and columns are not {x.shape[2]} wide"
            raise ArchError(what, f"state a width that is a multiple of {SINES}")
        y: Tensor = AddGridTables("places", places, self.entries, self.frame)(x)
        return y


class MeanFirstStep(ProjectorStep):
    """The mean of all tokens in front of them (Florence-2)."""

    kind: Literal["mean_first"] = "mean_first"

    def tokens_after(self, tokens: int, places: Places) -> int:
        """1 + T."""
        return 1 + tokens

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[B, T, D] to [B, 1 + T, D]."""
        both: Tensor = ConcatTokens("both")(MeanTokens("mean", 0)(x), x)
        return both
