"""Encoder: tokens that all see each other to hidden states, classes or guessed words.

B batch, T tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.ends.embedding import MaskedHead
from archcli.modules.models.model import Model
from archcli.modules.models.stack import Cached, Stack
from archcli.modules.networks.activation import Activation, Tanh
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context
from archcli.ops import KeepFirst, Linear, Positions


class Encoder(Model, Stack):
    """An encoder: tokens [B, T] to hidden states [B, T, D], all of which see each other.

    BERT, Devlin et al. 2018, arXiv:1810.04805.

    `pooler` adds tanh(W x + b) of the first token, from which BERT classifies; `pools` every does so for each
    token (ELECTRA's discriminator), `pooler_activation` takes the place of tanh, `pooler_dense` false takes
    the vector as it is (MobileBERT without classifier_activation). `n_labels` is a linear
    classifier of what is pooled, or without a pooler of every token; `head` guesses masked tokens. Layers
    state `causal: false`. Nothing is cached, and nothing is generated.
    """

    caches: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False
    kind: Literal["encoder"] = "encoder"
    pooler: bool = False
    pools: Literal["first", "every"] = "first"
    pooler_activation: Activation = Tanh()
    pooler_dense: bool = True
    n_labels: Size | None = None
    head: MaskedHead | None = None

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
    ) -> tuple[Tensor | tuple[Tensor, Tensor], Cached]:
        """[B, 1 or T, labels] with labels, else the hidden states, pooled or not; never a cache.

        With a head logits [B, T, V], and beside a pooler or labels a pair of both: BERT's pre-training,
        section 3.1.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        x = self.apply_final_norm(self.run(x, Context(positions, past))[0])
        y = self._pooled(x) if self.pooler else x
        self.hold(x)
        if self.n_labels is not None:
            y = Linear("classifier", self.n_labels, True)(y, group="classifier")
        if self.head is None:
            return y, None
        logits: Tensor = self.head(
            self.embedding.project_out(x),
            self.vocab_size,
            table if self.embedding.tied else None,
            name="lm_head",
        )
        return (logits, y) if self.pooler or self.n_labels is not None else logits, None

    def _pooled(self, x: Tensor) -> Tensor:
        read = KeepFirst("first")(x) if self.pools == "first" else x
        if not self.pooler_dense:
            return read
        dense = Linear("pooler", x.shape[-1], True)(read, group="pooler")
        pooled: Tensor = self.pooler_activation(dense, name="pooler_activation", group="pooler")
        return pooled

    def check(self) -> Iterator[Conflict]:
        """Conflict: a tied head of another width than the table."""
        yield from super().check()
        # the width of the table, which a tied head multiplies with
        below = self.embedding.width or self.d_model
        read = below if self.embedding.goes_back else self.d_model
        transformed = self.head.width if self.head is not None and self.head.transform else None
        if self.head is not None and self.head.table_width is not None:
            yield from self._check_table(self.head.table_width, transformed or read)
        elif self.head is not None and self.embedding.tied and (transformed or read) != below:
            yield Conflict(
                "head-width",
                "head.width",
                f"the head reads vectors of {transformed or read}, and its tied table has vectors of {below}",
                f"write width: {below}",
            )

    def _check_table(self, width: int, read: int) -> Iterator[Conflict]:
        """Conflicts of a head's matrix of two: a tied table of another width, no room for the second."""
        below = self.embedding.width or self.d_model
        if self.embedding.tied and width != below:
            what = f"the tied table has vectors of {below}, and the head's part is {width} wide"
            yield Conflict("head-table-width", "head.table_width", what, f"write table_width: {below}")
        elif width >= read:
            what = f"the head reads vectors of {read}, which leaves nothing beside {width}"
            yield Conflict("head-table-rest", "head.table_width", what, "leave table_width out")
