"""Generator, the base of models that predict the next token, and Decoder, the decoder-only one.

B batch, T new tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Self

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.ends.embedding import Head, OutputHead, output_matrix
from archcli.modules.models.model import Model
from archcli.modules.models.stack import Cached, Stack
from archcli.modules.spec.base import Conflict, Size, substitute
from archcli.modules.spec.context import Context
from archcli.modules.spec.request import InputSpec, Media, Request
from archcli.ops import KeepLast, Positions
from archcli.plugins import part

if TYPE_CHECKING:  # fields of few models, imported where one is given a value
    from archcli.modules import GivenMedium
    from archcli.modules.ends.loss import Likelihood, Loss
    from archcli.modules.ends.mtp import MultiTokenPrediction
    from archcli.modules.networks.per_layer import PerLayerEmbedding


class Generator(Model):
    """A model that predicts the next token, and what it is trained with.

    `loss` is what training minimizes; left out, a training pass ends with the logits, or where head or mtp
    need targets with their cross entropy.
    """

    head: OutputHead | None = Head()
    loss: Loss | None = None

    @property
    def trains_on_targets(self) -> bool:
        """Whether there is a loss, or a head that needs targets."""
        return self.loss is not None or self.trains_on_rows

    @property
    def trains_on_rows(self) -> bool:
        """Whether the head computes other rows in training than in inference."""
        return self.head is not None and self.head.by_targets

    @property
    def token_multiple(self) -> int:
        """The fewest training tokens that make the head's shares of targets whole numbers."""
        return 1 if self.head is None else self.head.token_multiple

    def logits_or_loss(self, x: Tensor, table: Tensor, targets: Tensor | None = None) -> Tensor:
        """x [B, T, D] to logits [B, T, V], or with targets [B, T] to the loss; without a head x itself."""
        if self.head is None:
            return x
        tied = table if self.embedding.tied else None
        if targets is None:
            logits: Tensor = self.head(x, self.vocab_size, tied, name="lm_head")
            return logits
        scored: Likelihood = self.head(x, self.vocab_size, tied, targets, name="lm_head")
        from archcli.modules.ends.loss import USUAL  # needed by training alone

        loss: Tensor = (self.loss or USUAL)(*scored, name="loss")
        return loss

    def check(self) -> Iterator[Conflict]:
        """Conflicts between head, loss and embedding."""
        yield from super().check()
        head = self.head
        if head is None and self.loss is not None:
            yield Conflict("loss-needs-head", "loss", "a loss needs a head", "add head, or leave loss out")
        if head is None:
            return
        # a narrow table's vectors are led to D for the layers, and back for the head
        table = self.embedding.width or self.d_model
        read = table if self.embedding.width_of == "tokens" else self.d_model
        yield from (conflict.below("head") for conflict in head.check_sizes(self.vocab_size, read))
        if self.embedding.tied and read != table:
            what = f"the head reads vectors of {read}, and its tied table has vectors of {table}"
            yield Conflict("head-tied-width", "embedding.tied", what, "write tied: false")
        if self.embedding.tied and not head.ties:
            kind = getattr(head, "kind", "")
            yield Conflict(
                "head-cannot-tie",
                "embedding.tied",
                f"a head of kind {kind} has matrices of other shapes than the table",
                "write tied: false",
            )
        if head.by_targets and getattr(self.loss, "z_loss", None) is not None:
            yield Conflict(
                "z-loss-softmax",
                "loss.z_loss",
                "z-loss is defined for one softmax over all words",
                "use a head of kind linear, or leave z_loss out",
            )


class Decoder(Generator, Stack):
    """A decoder-only language model: tokens [B, T] to logits [B, T, V], or hidden states without a head.

    With `head: null` it ends with the hidden states [B, T, D].
    `mtp` adds layers that predict further tokens, in training alone. `per_layer_embedding` is a second vector
    of each token for every layer, which layers with a per_layer_gate read (Gemma 3n). `source_len` is how
    many vectors of images a prompt has for layers that read images alone (Llama 3.2 Vision); left out, those
    of towers that cross, and of text none.
    """

    kind: Literal["decoder"] = "decoder"
    source_len: Size | None = None
    mtp: MultiTokenPrediction | None = None
    per_layer_embedding: PerLayerEmbedding | None = None

    def source_length(self, source_len: Number) -> Number | None:
        """The vectors of images that layers of cross attention read; None where there are none."""
        return self.source_len

    def with_media(self, media: Media) -> Self:
        """The decoder with the vectors of these media that layers of cross attention read."""
        towers = [(self.tower_of(medium), medium) for medium in media] if self.towers else []
        vectors = sum(tower.vectors_of(medium) for tower, medium in towers if tower.crosses)
        # `substitute` checks nothing anew: the layers are those that were valid before
        return substitute(self, {"source_len": vectors}) if vectors else self

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """Tokens, targets in training, and the source [B, S, D] of cross attention."""
        if self.source_len is None:
            return super().inputs(request)
        source = InputSpec((request.batch_size, self.source_len, self.d_model), "features")
        return {**super().inputs(request), "source": source}

    @property
    def trains_on_targets(self) -> bool:
        """Whether there is a loss, a head that needs targets, or multi-token prediction."""
        return super().trains_on_targets or self.mtp is not None

    @property
    def mtp_depth(self) -> int:
        """The depth of multi-token prediction."""
        return 0 if self.mtp is None else self.mtp.depth

    def forward(  # noqa: PLR0913
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
        targets: Tensor | None = None,
        source: Tensor | None = None,
        media: tuple[GivenMedium, ...] = (),
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V], with `last_only` [B, 1, V], with targets [B, T] the loss; and the cache.

        `cache` None caches nothing, `()` starts one, anything else is what the last call returned;
        `positions` [T] left out start at 0. `source` [B, S, D] is what layers of cross attention read,
        `media` are the images and sounds of the prompt.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        self.hold(x)
        ids = tokens if self._reads_ids else None
        per_layer = self._per_layer(tokens, x)
        context = Context(positions, past, cache=cache, memory=source, per_layer=per_layer, ids=ids)
        if media:
            x, context = part("media.read_media")(self, tokens, x, context, media)
        x, kept = self.run(x, context)
        # before norm and head: both work on the one position that is asked for
        y = self.embedding.project_out(self.apply_final_norm(KeepLast("last")(x) if last_only else x))
        answer = self.logits_or_loss(y, table, targets)
        if self.mtp is None or self.head is None or targets is None:
            return answer, kept
        # x, not y: the first depth reads the stream before the final norm
        return self._with_depths(answer, x, y, table, targets), kept

    def _with_depths(self, loss: Tensor, x: Tensor, y: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        """The loss with those of multi-token prediction, of the stream x and the final states y."""
        from archcli.modules.ends.mtp import Shared

        mtp: Any = self.mtp
        # `output_matrix` finds the weight that the head has declared, and declares none
        matrix = table if self.embedding.tied else output_matrix(y, self.vocab_size, None, "lm_head")
        layer = mtp.layer or self.groups[-1].blocks[-1]
        head: Any = self.head
        shared = Shared(self.embedding, table, head, matrix, layer, self.vocab_size)
        total: Tensor = mtp.add_losses(loss, x, targets, shared)
        return total

    @property
    def _reads_ids(self) -> bool:
        """Whether a layer, or its network, is given the ids of the tokens."""
        return any(
            block.reads_ids or any(network.reads_ids for network in block.all_networks)
            for _, block in self.layers()
        )

    def _per_layer(self, tokens: Tensor, x: Tensor) -> Tensor | None:
        """The vectors [B, T, L, w] of the per-layer embedding, if there is one."""
        if self.per_layer_embedding is None:
            return None
        n_layers: Number = sum(group.n_layers for group in self.groups)
        vectors: Tensor = self.per_layer_embedding(tokens, x, n_layers, name="per_layer_embedding")
        return vectors

    def check(self) -> Iterator[Conflict]:
        """Conflicts of multi-token prediction with what it shares, and vectors that no layer reads."""
        yield from super().check()
        if self.source_len is not None and not any(block.reads_media for _, block in self.layers()):
            what = "no layer of this decoder reads vectors of images by cross attention"
            yield Conflict("source-unread", "source_len", what, "leave it out")
        if self.mtp is not None:
            yield from self.mtp.check_shared(
                self.embedding,
                self.head,
                self.d_model,
                self.mtp.layer or self.groups[-1].blocks[-1],
                biased=self.score_bias is not None or self.relative is not None,
            )
