"""Encoder-decoders: source and target tokens in, logits of the target out.

B batch, T new tokens, S source tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.models.decoder import Generator
from archcli.modules.models.stack import Cached, Stack
from archcli.modules.networks.activation import dropped
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import NoPosition, Position
from archcli.modules.spec.base import Conflict, Share, Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.request import SOUNDS, InputSpec, Medium, Request
from archcli.ops import KeepLast, Linear, Positions

if TYPE_CHECKING:  # fields of few, imported where they are given a value
    from archcli.modules import ConvFrontEnd, Tower
    from archcli.modules.ends.embedding import Embedding


class EncoderStack(Stack):
    """The encoder half: source tokens or features to the memory [B, S, D] that the decoder attends to.

    `position` and `input_norm` are the encoder's own. With a `front_end` it reads features (Whisper's
    spectrogram) in place of tokens, and `source_len` is the fixed number of positions they make. `vocab_size`
    gives it a table of its own where source and target share none, and `d_model` a width of its own.
    `dropout` zeroes that share of what the layers read in training. `embedding` states all that is added to
    its own tokens where that is more than a position, in place of `position` and `input_norm`; `projects`
    leads its output to the decoder's width by a biased matrix (pairs of BERTs, arXiv:1907.12461).
    """

    is_causal: ClassVar[bool] = False
    position: Position = NoPosition()
    input_norm: Norm | None = None
    front_end: ConvFrontEnd | None = None
    vocab_size: Size | None = None
    d_model: Size | None = None
    dropout: Share = 0.0
    embedding: Embedding | None = None
    projects: bool = False

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """Vectors [B, S, D], ids [B, S] or features [B, channels, frames], to [B, S, d_model]."""
        x = x if self.front_end is None else self.front_end(x, name="front_end")
        positions = Positions("positions")(x)
        x = self._entered(x, positions)
        x = self.apply_final_norm(self.run(dropped(x, self.dropout), Context(positions))[0])
        memory: Tensor = Linear("project", d_model, True)(x) if self.projects else x
        return memory

    def _entered(self, x: Tensor, positions: Tensor) -> Tensor:
        """What the layers read: of its own ids their vectors, else vectors with a position and a norm."""
        if self.embedding is not None and self.vocab_size is not None and self.d_model is not None:
            entered: Tensor = self.embedding(x, positions, self.vocab_size, self.d_model, name="embedding")[0]
            return entered
        x = self.position(x, positions, name="position_embedding")
        return x if self.input_norm is None else self.input_norm(x, name="input_norm")

    def check(self) -> Iterator[Conflict]:
        """Conflicts of an embedding of its own with the fields whose place it takes."""
        yield from super().check()
        if self.embedding is None:
            return
        if self.vocab_size is None or self.d_model is None:
            what = "an embedding of the encoder needs its vocab_size and d_model"
            yield Conflict("encoder-embedding-sizes", "embedding", what, "state both")
        if self.input_norm is not None or self.position != NoPosition() or self.embedding.tied:
            what = (
                "an embedding of the encoder states position and norm itself, and has no head to be tied to"
            )
            yield Conflict("encoder-embedding", "embedding", what, "leave position, input_norm and tied out")


class DecoderStack(Stack):
    """The decoder half: layers with `cross_attention`."""

    def forward(self, x: Tensor, context: Context, last_only: bool = False) -> tuple[Tensor, Cached]:
        """[B, T, D] to [B, T, D], or [B, 1, D] with `last_only`, and the cache afterwards."""
        x, kept = self.run(x, context)
        # before the norm, which works on the one position that is asked for
        return self.apply_final_norm(KeepLast("last")(x) if last_only else x), kept


class EncoderDecoder(Generator):
    """Source and target tokens to logits of the target.

    Vaswani et al. 2017, arXiv:1706.03762; T5, arXiv:1910.10683.

    One table embeds both languages unless the encoder has its own; `embedding.position` is the decoder's,
    `encoder.position` the encoder's. `source_len` fixes the encoder's length (Whisper 1500); left out it is
    given with each pass.
    """

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    source_len: Size | None = None
    encoder: EncoderStack
    decoder: DecoderStack

    def fitted(self, request: Request) -> Request:
        """The request whose source has the tokens that its media become beside its text."""
        more = self.source_tokens(request.media)
        return replace(request, media=(), source_len=request.source_positions + more) if more else request

    def source_tokens(self, media: Sequence[Medium]) -> int:
        """All tokens that media take: the encoder reads them."""
        return self.media_tokens(media)

    def tower_of(self, medium: Medium) -> Tower:
        """The tower that reads a medium. Raises ArchError where none does, or where the front end does."""
        if self.towers or self.encoder.front_end is None:
            return super().tower_of(medium)
        name, frames = self.name or "this model", self.source_len
        if medium.kind not in SOUNDS:
            raise ArchError(f"{name} reads sound alone, no {medium.kind}", "leave --image and --video out")
        if frames is None:
            what = f"{name} reads sound as the positions of its source"
            raise ArchError(what, "state --source-len in place of --audio-…")
        what = f"{name} reads each sound as {frames:,} positions, which are counted"
        raise ArchError(what, "leave --audio-… out")

    def source_length(self, source_len: Number) -> Number:
        """The requested source length, or the fixed one of the model."""
        return source_len if self.source_len is None else self.source_len

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """Inputs: tokens, and the source as ids [B, S] or as front-end features of S positions."""
        length = self.source_length(request.source_positions)
        if self.encoder.front_end is not None:
            source = self.encoder.front_end.input(request.batch_size, length)
        else:
            n_ids = self.vocab_size if self.encoder.vocab_size is None else self.encoder.vocab_size
            source = InputSpec((request.batch_size, length), "ids", n_ids)
        return {**super().inputs(request), "source": source}

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
        source: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V], or with targets [B, T] the loss; and the cache.

        `source` is read unless the cache already holds what was made of it.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        self.hold(x)
        # a cache with entries holds the source's keys and values: the encoder does not run again
        memory = None if cache or source is None else self._encoded(source, table)
        x, kept = self.decoder(
            x, Context(positions, past, cache=cache, memory=memory), last_only, name="decoder"
        )
        return self.logits_or_loss(x, table, targets), kept

    def _encoded(self, source: Tensor, table: Tensor) -> Tensor:
        if self.encoder.embedding is None and self.encoder.vocab_size is not None:
            width = self.encoder.d_model or self.d_model
            source = self.embedding.own_vectors(source, self.encoder.vocab_size, width, "source")
        elif self.encoder.embedding is None and self.encoder.front_end is None:
            source = self.embedding.vectors(source, table, "source")
        memory: Tensor = self.encoder(source, self.d_model, name="encoder")
        return memory

    def check(self) -> Iterator[Conflict]:
        """Conflicts: an encoder with two sources of inputs, or of another width than what it reads."""
        yield from super().check()
        if self.encoder.vocab_size is not None and self.encoder.front_end is not None:
            yield Conflict(
                "tokens-or-features",
                "encoder.vocab_size",
                "an encoder reads tokens or features, not both",
                "leave vocab_size or front_end out",
            )
        if self.encoder.d_model is not None and self.encoder.vocab_size is None:
            yield Conflict(
                "encoder-width",
                "encoder.d_model",
                "an encoder of its own width has a table of its own",
                "state vocab_size, or leave d_model out",
            )
        if self.encoder.front_end is not None and self.encoder.front_end.d_model != self.d_model:
            width = self.encoder.front_end.d_model
            yield Conflict(
                "front-end-width",
                "encoder.front_end.d_model",
                f"the front end makes vectors {width} wide, not {self.d_model}",
                "make both alike",
            )
        if self.embedding.width is not None:
            yield Conflict(
                "embedding-width",
                "embedding.width",
                "an encoder-decoder's table is as wide as d_model",
                "leave width out",
            )
