"""The two ends of a model: token ids to vectors, and vectors to logits.

B batch, T new tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation, dropped
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import NoPosition, Position
from archcli.modules.spec.base import Conflict, Count, Inherit, Inline, Module, Positive, Share, Size, Spec
from archcli.ops import Add, Concat, Gather, Linear, Lookup, Parameter, Scale, Softcap, Zeros


class OutputHead(Inline):
    """A map from hidden states to logits, or with targets to their likelihoods."""

    family: ClassVar[str] = "head"
    default_kind: ClassVar[str] = "linear"
    group: ClassVar[str] = "lm_head"
    by_targets: ClassVar[bool] = True
    """Whether training computes something else than the logits of all words."""
    ties: ClassVar[bool] = True
    """Whether the embedding's table can be its matrix."""

    @property
    def token_multiple(self) -> int:
        """The smallest number of targets that every share of the head divides into whole tokens."""
        return 1

    def target_ranges(self, vocab_size: int, tokens: int) -> list[tuple[int, int, int]]:
        """(first id, end id, number of targets) of each range of ids that random targets are drawn from."""
        return [(0, vocab_size, tokens)]

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to a figure per word [B, T, V], or with targets [B, T] to a `Likelihood`.

        `table` is the tied weight, or None.
        """
        raise NotImplementedError

    def check_sizes(self, vocab_size: int, width: int) -> Iterator[Conflict]:
        """Conflicts with a model's vocabulary size V and width D."""
        yield from ()


def output_matrix(x: Tensor, vocab_size: Number, table: Tensor | None, name: str) -> Tensor:
    """The output matrix [V, D]: the tied table, or the head's weight."""
    return x.tape.weight(Linear(name, vocab_size), x) if table is None else table


def all_logits(x: Tensor, vocab_size: Number, table: Tensor | None, name: str) -> Tensor:
    """Logits [B, T, V] by that matrix."""
    logits: Tensor = Linear(name, vocab_size, borrowed=table is not None)(
        x, *([] if table is None else [table])
    )
    return logits


PROJECTION = "embedding_projection"
FIRST = "first_type"


class JoinedTable(Spec):
    """A table of a further feature of tokens: `entries` vectors that are `width` wide."""

    entries: Size
    width: Size


class Embedding(Module):
    """x = scale * table[id] + position, then a norm if there is one. The table is [V, D].

    `tied` lets the output head use the same table (Press & Wolf 2016, arXiv:1608.05859). `scale` multiplies
    the vectors: a number, or sqrt_d_model (Vaswani et al. 2017, Gemma); left out they stay as they are.
    `norm` follows (BLOOM), or with `norms_tokens` comes before the position (Blenderbot-small). `position` is
    what is added per token, `token_types` how many kinds of segment have a vector that is added too (BERT 2;
    a pass uses the first), `more_types` further such tables (ERNIE's tasks), `boxes` how many places on a
    page have vectors: tables of x, y, height and width, of which x and y are read twice (LayoutLM,
    arXiv:1912.13318). `joins` leads the vector, with the vectors of the features in `joined` behind it, to D
    by a biased matrix (RoCBERT; a pass uses the first entries). `width` w makes the table [V, w], with a
    matrix from w to D behind it and one back to w before the head (OPT-350m, arXiv:2205.01068). With
    `neighbours` n that matrix is biased, reads the vectors of n tokens to each side beside the token's own,
    and none leads back (MobileBERT 1, arXiv:2004.02984 section 3.3; 0 reads the token's alone). With
    `width_of` all, positions, segment types and norm are as narrow, and a biased matrix leads from them to D,
    none back (ALBERT, arXiv:1909.11942 section 3.1; ELECTRA). `extra_rows` is how many rows of the table are
    of no word that could be predicted (Moshi 1). `dropout` zeroes that share of the vectors in training.
    """

    group: ClassVar[str] = "embedding"
    tied: bool = False
    scale: Positive | Literal["sqrt_d_model"] | None = None
    position: Position = NoPosition()
    token_types: Count = 0
    more_types: tuple[Size, ...] = ()
    boxes: Size | None = None
    joined: tuple[JoinedTable, ...] = ()
    joins: bool = False
    norm: Norm | None = None
    norms_tokens: bool = False
    width: Size | None = None
    width_of: Literal["tokens", "all"] = "tokens"
    neighbours: Count | None = None
    extra_rows: Count = 0
    dropout: Share = 0.0

    def forward(
        self, tokens: Tensor, positions: Tensor, vocab_size: Number, d_model: Number
    ) -> tuple[Tensor, Tensor]:
        """Ids [B, T] to vectors [B, T, D], and the table itself for a tied head."""
        rows = vocab_size + self.extra_rows if self.extra_rows else vocab_size
        lookup = Lookup("tokens", rows, d_model if self.width is None else self.width)
        x = self._scaled(lookup(tokens), "scale")
        narrow = self.width_of == "all"
        x = x if self.width is None or narrow else self._widened(x, d_model)
        x = self._joined(x, tokens, d_model) if self.joins else x
        # ids of 0, made here: a pass is not given the kinds of its segments
        for name, kinds in self._typed():
            types = Lookup(name, kinds, x.shape[-1])(Zeros(FIRST)(tokens), group="token_type_embedding")
            x = Add(f"{name}_add", meets=False)(x, types)
        x = x if self.boxes is None else self._boxed(x, tokens, self.boxes)
        x = self._normalized(x) if self.norms_tokens else x
        x = self.position(x, positions, name="positions")
        x = x if self.norms_tokens else self._normalized(x)
        x = dropped(x, self.dropout)
        # ALBERT and ELECTRA widen behind position, norm and dropout, OPT before the position
        x = Linear("project_in", d_model, True)(x, group=PROJECTION) if narrow else x
        return x, x.tape.weight(lookup, tokens)

    @property
    def goes_back(self) -> bool:
        """Whether a matrix leads back to the width of the table before the head."""
        return self.width is not None and self.width_of == "tokens" and self.neighbours is None

    @property
    def adds_tables(self) -> bool:
        """Whether vectors of further tables are added or joined to those of the tokens."""
        return bool(self.token_types or self.more_types or self.boxes or self.joins)

    def _normalized(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.norm is None else self.norm(x, name="norm")
        return y

    def _typed(self) -> Iterator[tuple[str, Number]]:
        """(name, entries) of each table of token types; a pass uses their first vectors."""
        if self.token_types:
            yield "token_types", self.token_types
        yield from ((f"more_types_{i}", kinds) for i, kinds in enumerate(self.more_types))

    def _widened(self, x: Tensor, d_model: Number) -> Tensor:
        """Vectors [B, T, w], and those of their neighbours, led to D."""
        if self.neighbours:
            from archcli.ops import JoinNeighbours  # rare: MobileBERT

            x = JoinNeighbours("neighbours", self.neighbours)(x)
        y: Tensor = Linear("project_in", d_model, self.neighbours is not None)(x, group=PROJECTION)
        return y

    def _joined(self, x: Tensor, tokens: Tensor, d_model: Number) -> Tensor:
        """Tokens' vectors with those of their features, led to D."""
        for i, table in enumerate(self.joined):
            lookup = Lookup(f"joined_{i}", table.entries, table.width)
            x = Concat(f"join_{i}")(x, lookup(Zeros(FIRST)(tokens), group="feature_embedding"))
        y: Tensor = Linear("joined_proj", d_model, True)(x, group=PROJECTION)
        return y

    def _boxed(self, x: Tensor, tokens: Tensor, boxes: Number) -> Tensor:
        """x with the vectors of left, right, upper and lower edge, height and width, all of place 0."""
        for side in "xyhw":
            lookup, ids = Lookup(f"boxes_{side}", boxes, x.shape[-1]), Zeros(FIRST)(tokens)
            edge = lookup(ids, group="box_embedding")
            x = Add(f"boxes_{side}_add", meets=False)(x, edge)
            # LayoutLM looks left and right up in the table of x, top and bottom in that of y
            if side in "xy":
                # by the weight of the first lookup: a second Lookup would count the table twice
                again = Gather(f"boxes_{side}_again")(ids, x.tape.weight(lookup, tokens))
                x = Add(f"boxes_{side}_again_add", meets=False)(x, again)
        return x

    def project_out(self, x: Tensor) -> Tensor:
        """The head's input: x [B, T, D], or projected to [B, T, w] where a matrix leads back to w."""
        y: Tensor = Linear("project_out", self.width)(x, group=PROJECTION) if self.goes_back else x
        return y

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a narrow embedding without a width, a tied table of more rows than there are words."""
        if self.tied and self.extra_rows:
            yield Conflict(
                "extra-rows-tied",
                "extra_rows",
                "a tied table has a row for each word, and no more",
                "write tied: false, or leave extra_rows out",
            )
        if self.width_of == "all" and self.width is None:
            yield Conflict(
                "width-of-all", "width_of", "width_of says what has the width, and there is none", "add width"
            )
        if self.neighbours is not None and (self.width is None or self.width_of == "all"):
            what = "neighbours are read by the matrix behind a table of its own width"
            yield Conflict("neighbours-width", "neighbours", what, "state width, and no width_of")

    def vectors(self, ids: Tensor, table: Tensor, name: str) -> Tensor:
        """Vectors of an encoder's source ids by the same table and scale."""
        return self._scaled(Gather(name)(ids, table), f"{name}_scale")

    def own_vectors(self, ids: Tensor, vocab_size: Number, d_model: Number, name: str) -> Tensor:
        """Vectors of ids by a second table with the same scale."""
        return self._scaled(Lookup(name, vocab_size, d_model)(ids, group=self.group), f"{name}_scale")

    def _scaled(self, x: Tensor, name: str) -> Tensor:
        if self.scale is None:
            return x
        scaled: Tensor = Scale(name, x.shape[-1] ** 0.5 if self.scale == "sqrt_d_model" else self.scale)(x)
        return scaled


class LogitHead(OutputHead):
    """Base of the heads that compute the logits of all words: softcap(scale * (W x + b)).

    W is the embedding's table where that is tied, else a [V, D] matrix of its own.

    `scale` multiplies the logits (Command R 0.0625, Granite 1/logits_scaling); `softcap` c maps them to c
    tanh(logits/c) (Gemma 2). `stored_bias` adds a bias that is kept but not trained (Marian).
    """

    by_targets: ClassVar[bool] = False
    bias: bool = False
    stored_bias: bool = False
    scale: Positive = 1.0
    softcap: Positive | None = None

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to logits [B, T, V], or with targets to likelihoods; `table` is the tied weight."""
        logits: Tensor = Linear(name, vocab_size, self.bias, table is not None, self.stored_bias)(
            x, *_as_inputs(table)
        )
        if self.scale != 1.0:
            logits = Scale("logit_scale", self.scale)(logits)
        logits = logits if self.softcap is None else Softcap("logit_softcap", self.softcap)(logits)
        if targets is None:
            return logits
        from archcli.modules.ends.loss import likelihood  # needed by training alone

        return likelihood(logits, targets)

    def check(self) -> Iterator[Conflict]:
        """Conflict: both a trained and a stored bias."""
        if self.bias and self.stored_bias:
            yield Conflict(
                "one-head-bias",
                "stored_bias",
                "a head has one bias, trained or stored",
                "leave one of them out",
            )


class Head(LogitHead):
    """logits = softcap(scale * (W x + b)). W is the embedding's table where that is tied."""

    kind: Literal["linear"] = "linear"


class TransformedHead(LogitHead):
    """The linear head of norm(act(T x + t)), T square: BERT's head in a decoder (Ettin, arXiv:2507.11412).

    Differs from MaskedHead in predicting the next token. `transform_bias` false leaves t out.
    """

    kind: Literal["transformed"] = "transformed"
    activation: Activation = GELU()
    norm: Annotated[Norm, Inherit("norm")]
    transform_bias: bool = True

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to logits [B, T, V], or with targets to likelihoods; `table` is the tied weight."""
        x = transformed(self, x, x.shape[-1], name)
        return super().forward(x, vocab_size, table, targets, name=name)


class MaskedHead(Inline):
    """logits = W norm(act(T x + t)) + b for every token. BERT, arXiv:1810.04805 section 3.1.

    W is the embedding's table where that is tied, else a [V, D] matrix. `transform` false is W x + b alone
    (EuroBERT), `transform_bias` and `bias` false leave out t or b. T makes vectors of `width`, left out as
    wide as they were (ALBERT and ELECTRA: the width of the table). `bottleneck` makes two matrices without
    bias of T, to this width and back, the function after each, and no norm (UltraBERT). `table_width` w makes
    W of two, side by side: [V, w], which a tied table is, and a matrix [V, D - w] (MobileBERT).
    """

    group: ClassVar[str] = "lm_head"
    ties: ClassVar[bool] = True
    """Whether its matrix may be the embedding's table."""
    activation: Activation = GELU()
    norm: Annotated[Norm, Inherit("norm")]
    transform: bool = True
    transform_bias: bool = True
    bias: bool = True
    width: Size | None = None
    bottleneck: Size | None = None
    table_width: Size | None = None

    def forward(self, x: Tensor, vocab_size: Number, table: Tensor | None, *, name: str) -> Tensor:
        """[B, T, D] to logits [B, T, V]; `table` is the tied weight, or None."""
        hidden = self._transformed(x, name) if self.transform else x
        if self.table_width is not None:
            table = self._joined(hidden, vocab_size, table, name, self.table_width)
        logits: Tensor = Linear(name, vocab_size, self.bias, table is not None)(hidden, *_as_inputs(table))
        return logits

    def _transformed(self, x: Tensor, name: str) -> Tensor:
        if self.bottleneck is not None:
            return self._squeezed(x, name, self.bottleneck)
        return transformed(self, x, x.shape[-1] if self.width is None else self.width, name)

    def _joined(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, name: str, width: Number
    ) -> Tensor:
        """W [V, D] of two matrices, the first of which may be the embedding's table [V, w]."""
        first = Parameter(f"{name}_table", (vocab_size, width))(x) if table is None else table
        second = Parameter(f"{name}_rest", (vocab_size, x.shape[-1] - width))(x)
        joined: Tensor = Concat(f"{name}_join")(first, second)
        return joined

    def _squeezed(self, x: Tensor, name: str, width: Number) -> Tensor:
        hidden = self.activation(Linear(f"{name}_transform", width)(x), name=f"{name}_activation")
        back = Linear(f"{name}_transform_back", x.shape[-1])(hidden)
        again: Tensor = self.activation(back, name=f"{name}_activation_back")
        return again


def transformed(head: TransformedHead | MaskedHead, x: Tensor, width: Number, name: str) -> Tensor:
    """norm(act(T x + t)) of a head, [B, T, D] to [B, T, width]."""
    hidden = Linear(f"{name}_transform", width, head.transform_bias)(x)
    normalized: Tensor = head.norm(head.activation(hidden, name=f"{name}_activation"), name=f"{name}_norm")
    return normalized


def _as_inputs(table: Tensor | None) -> list[Tensor]:
    return [] if table is None else [table]
