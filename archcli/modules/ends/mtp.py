"""Multi-token prediction: in training, further layers predict the tokens after the next one.

B batch, L tokens a depth starts from, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, NamedTuple

from archcli.arith import Number, prod
from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.ends.embedding import Embedding, Head, OutputHead
from archcli.modules.ends.loss import USUAL, Likelihood
from archcli.modules.networks.activation import dropped
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import NoPosition
from archcli.modules.spec.base import Conflict, Inherit, Module, Positive
from archcli.modules.spec.context import Context
from archcli.modules.spec.trace import MTP
from archcli.modules.spec.values import Advice, Interval
from archcli.ops import Add, Concat, Linear, Positions, Scale, Split


class Shared(NamedTuple):
    """What all depths share with the model.

    embedding, table: the module and its token table [V, D]. head, matrix: the module and its matrix [V, D].
    layer: the block of a depth. vocab_size: V.
    """

    embedding: Embedding
    table: Tensor
    head: OutputHead
    matrix: Tensor
    layer: Block
    vocab_size: Number


class MultiTokenPrediction(Module):
    """h' = P [N_e embed(next token); N_h h]; h'' = block(h'); logits = head(N h'').

    DeepSeek-V3, arXiv:2412.19437 section 2.2. The first depth reads the last layer's output, before the
    model's final norm; each further one reads that of the depth before. Each is one token shorter, for one
    token more lies beyond the end. Embedding and head are the model's. P is [D, 2D]; parts are named and P's
    input ordered as in DeepSeek's checkpoint: enorm, hnorm, eh_proj, layer, norm. The loss of a depth is the
    sum of -log p over its tokens, divided by all B T (equation 24); the weighed mean over depths is added to
    the model's loss (equation 25).

    `depth` is how many tokens are predicted beyond the next, by a layer each. `layer` is that layer; left
    out, it is like the last of the model's last group. `norm` is used for all three norms; left out, the
    model's. `loss_weight` is 0.3 for most of DeepSeek-V3's training, then 0.1.

    It runs in training alone, and its parameters are counted apart.
    """

    group: ClassVar[str] = MTP
    depth: Annotated[int, Interval(ge=1), Advice("mtp: null leaves multi-token prediction out")] = 1
    layer: Block | None = None
    norm: Annotated[Norm, Inherit("norm")]
    loss_weight: Positive = 0.3

    def check_shared(
        self, embedding: Embedding, head: OutputHead | None, d_model: int, layer: Block, *, biased: bool
    ) -> Iterator[Conflict]:
        """Conflicts of the shared embedding and head, and of the layer with width D.

        `layer` is the one that it is made of, `biased`: layers share a score bias, or relative positions.
        """
        if not isinstance(head, Head) or head.bias or head.stored_bias:
            yield Conflict(
                "mtp-head",
                MTP,
                "multi-token prediction shares a head, which must be of kind linear, without a bias",
                "change head, or leave mtp out",
            )
        if (
            not isinstance(embedding.position, NoPosition)
            or embedding.norm
            or embedding.adds_tables
            or embedding.width
        ):
            yield Conflict(
                "mtp-embedding",
                MTP,
                "multi-token prediction shares the embedding, which must be a table alone",
                "take positions into attention, or leave mtp out",
            )
        if layer.used is not None:
            what = "a layer of multi-token prediction uses no shared block"
            yield Conflict("mtp-shared", MTP, what, "state a layer of its own")
        gated = getattr(layer, "per_layer_gate", None) is not None
        if layer.streams != 1 or {layer.facts().kv_from, layer.facts().index_from} != {None} or gated:
            what = "a layer of multi-token prediction has one stream and keys and values of its own"
            yield Conflict("mtp-alone", MTP, what, "state a layer of another kind, without per_layer_gate")
        mixing = self.layer.mixing if self.layer else None
        if biased or (mixing and mixing[1].relative_span is not None):
            yield Conflict(
                "mtp-score-bias",
                MTP,
                "multi-token prediction has no score bias and no relative positions",
                "leave mtp out, or score_bias and relative",
            )
        for conflict in self.layer.check_width(d_model) if self.layer else ():
            yield conflict.below(f"{MTP}.layer")

    def add_losses(self, loss: Tensor, h: Tensor, targets: Tensor, shared: Shared) -> Tensor:
        """The model's loss plus the losses of all depths.

        h [B, T, D] comes out of the last layer, targets [B, T] follow its tokens.
        """
        tokens = prod(targets.shape)
        extra: list[Tensor] = []
        for k in range(self.depth):
            h, targets, scored = self(h, targets, shared, name=f"{MTP}.{k}")
            # over all B T tokens, though a depth scores fewer (arXiv:2412.19437 equation 24)
            of_depth: Tensor = USUAL(*scored, tokens, name=f"{MTP}_{k}")
            extra.append(of_depth if not extra else Add(f"{MTP}_{k}_sum")(extra[-1], of_depth))
        weighed = Scale(f"{MTP}_weight", self.loss_weight / self.depth)(extra[-1])
        total: Tensor = Add(f"{MTP}_total")(loss, weighed)
        return total

    def forward(self, h: Tensor, targets: Tensor, shared: Shared) -> tuple[Tensor, Tensor, Likelihood]:
        """One depth: h [B, L, D] and targets [B, L] to h [B, L-1, D], targets left, their likelihoods."""
        length, width = h.shape[1] - 1, h.shape[-1]
        # position i reads h_i and the token behind it (`known`), and predicts the one after (`wanted`)
        before, _ = Split("kept", (length, 1), axis=1)(h)
        known, _ = Split("known", (length, 1), axis=1)(targets)
        _, wanted = Split("wanted", (1, length), axis=1)(targets)
        vectors = dropped(
            shared.embedding.vectors(known, shared.table, "embedding"), shared.embedding.dropout
        )
        embedded = self.norm(vectors, name="enorm")
        x = Linear("eh_proj", width)(Concat("concat")(embedded, self.norm(before, name="hnorm")))
        # a table of its own: the model's is for one token more
        positions = Positions("positions")(known)
        context = Context(positions, rotary=shared.layer.table(positions, width, "rotary", x))
        x, _ = shared.layer(x, context, name="layer")
        scored = shared.head(
            self.norm(x, name="norm"), shared.vocab_size, shared.matrix, wanted, name="logits", group=MTP
        )
        return x, wanted, scored
