"""Positions: nothing, a table added to the embeddings, rotated queries and keys, or a bias on scores.

A position may act in three places; each class fills the hooks of its place: `forward` (what is added once to
the token embeddings), `table` and `rotate` (inside attention), `max_bias` (on attention scores).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, is_whole
from archcli.graph import Row, Tensor
from archcli.modules.positions.rope_scaling import NoScaling, RopeScaling
from archcli.modules.spec.base import Conflict, Count, Inherit, Inline, Positive, Size
from archcli.modules.spec.kinds import kind_of
from archcli.ops import Add, AddConstant, Lookup, RotaryTable, Rotate
from archcli.ops import Sinusoid as SinusoidOp
from archcli.ops.attention.rotary import Pairing


class Position(Inline):
    """Base of the position embeddings; every hook does nothing until a class fills it."""

    family: ClassVar[str] = "position"
    group: ClassVar[str] = "position_embedding"
    acts_on: ClassVar[Literal["nothing", "embedding", "heads", "keys", "scores"]] = "nothing"
    """Where it enters: added to the embedding, turning queries and keys, added to keys, added to scores."""

    shares_bias: ClassVar[bool] = False
    """Whether one bias on scores serves all sequences of a batch."""

    @property
    def rope_base(self) -> float | None:
        """The base of the frequencies of rotary positions; None of any other."""
        base: float | None = getattr(self, "theta", None)
        return base

    @property
    def scaling_kind(self) -> str:
        """The kind of scaling of rotary positions beyond the trained context, or none."""
        return kind_of(getattr(self, "scaling", None)) or "none"

    def forward(self, x: Tensor, positions: Tensor, *, name: str) -> Tensor:
        """Token embeddings x [B, T, D] with what this position adds to them."""
        return x

    def table(
        self, positions: Tensor, head_dim: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """cos and sin for `rotate`, or None where nothing is rotated."""
        return None

    def rotate(self, x: Tensor, table: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Heads x [B, T, H, d], rotated by position."""
        return x

    def rotate_back(self, x: Tensor, table: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Heads x [B, T, H, d], turned by position the other way round."""
        return x

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor | None:
        """A bias [B, H, T, S] on the scores that goes by the queries q [B, T, H, d], or None."""
        return None

    def check_width(self, width: int) -> Iterator[Conflict]:
        """Conflicts with heads of the given width."""
        yield from ()

    def rotary_width(self, width: Number) -> Number:
        """The number of rotated dims of a head of the given width."""
        return 0

    @property
    def unscaled_base(self) -> float | None:
        """The base of its rotary frequencies, None where nothing is rotated or the frequencies are scaled."""
        return None

    @property
    def score_factor(self) -> float:
        """The factor on the attention scale."""
        return 1.0

    @property
    def max_bias(self) -> float | None:
        """The largest ALiBi exponent, where scores are biased."""
        return None

    def bias_factor(self, scale: float) -> float:
        """The factor on ALiBi's slopes, for scores scaled by `scale`."""
        return 1.0


class NoPosition(Position):
    """No position at all (NoPE): order comes from the causal mask alone.

    Kazemnejad et al. 2023, arXiv:2305.19466.
    """

    kind: Literal["none"] = "none"


class Learned(Position):
    """A trained table [max_seq_len + offset, D] added to the token embeddings (GPT-2).

    `offset` rows stand before that of the first token (OPT 2). A `frozen` table is stored but not trained
    (Whisper's encoder).
    """

    acts_on = "embedding"
    kind: Literal["learned"] = "learned"
    max_seq_len: Annotated[Size, Inherit("max_seq_len")]
    offset: Count = 0
    frozen: bool = False

    def forward(self, x: Tensor, positions: Tensor, *, name: str) -> Tensor:
        """x + table[positions + offset]."""
        rows = AddConstant(f"{name}_rows", self.offset)(positions) if self.offset else positions
        lookup = Lookup(name, self.max_seq_len + self.offset, x.shape[-1], frozen=self.frozen)
        looked_up = lookup(rows, group="frozen_positional" if self.frozen else "")
        total: Tensor = Add(f"{name}_add")(x, looked_up)
        return total


def learned_positions(rows: Iterable[Row]) -> Iterator[tuple[Row, Number]]:
    """(row, positions) of every learned position table, entries before the offset not counted."""
    offsets: dict[str, Number] = {}
    for row in rows:
        # `Learned` adds its offset before the lookup, under the lookup's name and _rows
        if isinstance(row.op, AddConstant):
            offsets[row.path] = row.op.by
        elif isinstance(row.op, Lookup) and len(row.inputs[0]) == 1:  # token ids have two axes, positions one
            yield row, row.op.entries - offsets.get(f"{row.path}_rows", 0)


class Sinusoidal(Position):
    """The fixed sinusoid added to the token embeddings: no parameters.

    Vaswani et al. 2017, arXiv:1706.03762 section 3.5.

    `interleaved` alternates sine and cosine as the paper does; `half` puts all sines first (Marian), or all
    cosines where `first` is cosine (MusicGen). The first token is at position `offset` (XGLM 2).
    """

    acts_on = "embedding"
    kind: Literal["sinusoidal"] = "sinusoidal"
    base: Positive = 10000.0
    pairing: Pairing = "interleaved"
    first: Literal["sine", "cosine"] = "sine"
    offset: Count = 0

    def forward(self, x: Tensor, positions: Tensor, *, name: str) -> Tensor:
        """x + sinusoid(positions + offset)."""
        rows = AddConstant(f"{name}_rows", self.offset)(positions) if self.offset else positions
        op = SinusoidOp(name, x.shape[-1], self.base, self.pairing, self.first)
        total: Tensor = Add(f"{name}_add")(x, op(rows))
        return total


class ALiBi(Position):
    """Scores lose slope_h * |key - query|, the slopes 2^(-max_bias i/H).

    Press et al. 2021, arXiv:2108.12409. max_bias 8 as in the paper. `scaled` multiplies the bias by the
    attention's scale as it does q k^T (Falcon-RW).
    """

    acts_on = "scores"
    kind: Literal["alibi"] = "alibi"
    slope_exponent: Positive = 8.0
    scaled: bool = False

    @property
    def max_bias(self) -> float | None:
        """ALiBi's exponent: head i of H has the slope 2^(-max_bias i/H)."""
        return self.slope_exponent

    def bias_factor(self, scale: float) -> float:
        """`scale` where the bias is added before scaling, else 1."""
        return scale if self.scaled else 1.0


class Rope(Position):
    """Rotary positions: pair i of a query or key turns by position * theta^(-2i/r).

    Su et al. 2021, arXiv:2104.09864. `rotary_dim` r turns only the first r dims of a head (GPT-NeoX, Phi);
    left out, all of them. `pairing` half pairs (i, i + r/2) as Llama's weights expect, interleaved pairs (2i,
    2i + 1) as GPT-J's do. `scaling` stretches the frequencies beyond the trained context. `clockwise` turns
    pairs the other way round (nanochat). `rotates` last turns the last r dims of a head in place of the first
    (those of the heads of Hunyuan V4's indexer).
    """

    acts_on = "heads"
    kind: Literal["rope"] = "rope"
    theta: Positive = 10000.0
    rotary_dim: Size | None = None
    pairing: Pairing = "half"
    scaling: RopeScaling = NoScaling()
    clockwise: bool = False
    rotates: Literal["first", "last"] = "first"

    def table(
        self, positions: Tensor, head_dim: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """cos and sin, [T, r/2] each, in the dtype of what they are `like`, else in fp32."""
        scaling = self.scaling
        op = RotaryTable(name, self.rotary_width(head_dim), self, scaling.amplitude, scaling.near_amplitude)
        table: tuple[Tensor, Tensor] = op(positions, *(() if like is None else (like,)))
        return table

    def rotary_width(self, width: Number) -> Number:
        return width if self.rotary_dim is None else self.rotary_dim

    @property
    def unscaled_base(self) -> float | None:
        return self.theta if isinstance(self.scaling, NoScaling) else None

    @property
    def marks(self) -> tuple[str, ...]:
        """Its base and its scaling, as a drawing says them."""
        return f"RoPE θ {self.theta:,.15g}", *self.scaling.marks

    def frequencies(self, torch: Any, width: int, positions: Any) -> Any:
        """Radians per position of each of the r/2 pairs, as torch computes them."""
        frequencies = self.scaling.frequencies(torch, self.theta, width, positions)
        return -frequencies if self.clockwise else frequencies

    def rotate(self, x: Tensor, table: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Heads x [B, T, H, d] with the first, or last, r dims rotated."""
        turned: Tensor = Rotate(name, self.pairing, self.rotates == "last")(x, *(table or ()))
        return turned

    def rotate_back(self, x: Tensor, table: tuple[Tensor, Tensor] | None, name: str) -> Tensor:
        """Heads x [B, T, H, d] with the same dims turned the other way round."""
        turned: Tensor = Rotate(name, self.pairing, self.rotates == "last", back=True)(x, *(table or ()))
        return turned

    @property
    def score_factor(self) -> float:
        """The factor of RoPE scaling on the attention scale: DeepSeek's YaRN has one."""
        return self.scaling.score_factor

    def check_width(self, width: int) -> Iterator[Conflict]:
        """Conflicts: rotary dims that are odd, or more than the head has."""
        if self.rotary_dim is None and width % 2:
            yield Conflict(
                "rotary-dims-even",
                "position",
                f"RoPE rotates dimensions in pairs, and head_dim is {width}",
                "state an even head_dim, or an even rotary_dim",
            )
        if self.rotary_dim is not None and self.rotary_dim > width:
            yield Conflict(
                "rotary-dims-within-head",
                "position.rotary_dim",
                f"rotary_dim {self.rotary_dim} is more than head_dim {width}",
                "leave it out to rotate all of a head",
            )

    def check(self) -> Iterator[Conflict]:
        """Conflict: an odd number of rotary dims."""
        if is_whole(self.rotary_dim) and self.rotary_dim % 2:
            yield Conflict(
                "rotary-dims-even",
                "rotary_dim",
                f"rotary_dim must be even, not {self.rotary_dim}",
                "RoPE rotates dimensions in pairs",
            )
