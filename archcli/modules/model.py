"""Models: token ids in, logits or hidden states out.

B batch, T new tokens, S source tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from archcli.arith import Number, Shape
from archcli.graph import Tensor
from archcli.modules.base import Module, Share, Size, children
from archcli.modules.context import Context
from archcli.modules.dropout import dropped
from archcli.modules.embedding import Embedding, Head, MaskedHead
from archcli.modules.frontend import ConvFrontEnd
from archcli.modules.lora import LoRA
from archcli.modules.norm import Norm
from archcli.modules.outline import counted_layers
from archcli.modules.position import NoPosition, Position
from archcli.modules.quantization import Quantization
from archcli.modules.stack import Cached, Stack
from archcli.modules.training import Training
from archcli.ops import Activate, KeepFirst, KeepLast, Linear, Positions

RELEASED = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?", re.ASCII)
"""A year, or a year and a month."""


class Model(Module):
    """What every model states besides its layers.

    `norm` is what every layer uses that names none of its own, and what follows the last layer. `max_seq_len` is the
    context it was trained for: it sizes a learned position table and is otherwise a note. `published` holds figures a
    paper or a checkpoint states, which tests compare with what is counted. `released` is when it was first public: a year, or
    "2024-07". `series` is the line of models it belongs to: llama, gpt. Neither changes a count. `lora` adds low-rank adapters,
    which alone are trained; `quantization` says in how many bits the weights are stored. `ignore` lists codes of rules
    that `archcli check` is to leave out, `training` what of the recipe those rules judge; neither is counted.
    """

    family: ClassVar[str] = "model"
    name: str = ""
    source: str = ""
    released: int | str | None = None
    series: str = ""
    published: dict[str, int] = Field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    training: Training | None = None
    vocab_size: Size
    d_model: Size
    max_seq_len: Size | None = None
    norm: Norm
    embedding: Embedding = Field(default_factory=Embedding)
    lora: LoRA | None = None
    quantization: Quantization | None = None

    caches: ClassVar[bool] = True
    """Whether it generates token by token, and so has a cache to fill."""

    def source_length(self, source_len: Number) -> Number | None:
        """How many positions an encoder-decoder's encoder has where `source_len` are asked for; None for any other model."""
        return None

    def source_shape(self, batch_size: Number, source_len: Number) -> Shape | None:
        """The shape of what an encoder reads besides the tokens, or None for a model that reads tokens alone."""
        return None

    def check(self) -> Iterator[tuple[str, str, str]]:
        """Every layer fits d_model; what is spoken of by name is there; a date is one."""
        yield from super().check()
        if self.released is not None and not RELEASED.fullmatch(str(self.released)):
            yield "released", f"released must be a year, or a year and a month, not {str(self.released)[:40]!r}", 'write 2024 or "2024-07"'
        misfits = [(path + field, what, hint) for path, stack in stacks(self) for field, what, hint in stack.check_width(self.d_model)]
        yield from misfits
        if self.lora is not None and not misfits:
            yield from self.lora.check_model(self)
        if self.quantization is not None and not misfits:
            yield from self.quantization.check_model(self, dict(counted_layers(self, stacks(self))))


def stacks(model: Model) -> Iterator[tuple[str, Stack]]:
    """(path, stack) of every stack of layers in a model; the path ends in a dot, or is empty where the model is the stack."""
    if isinstance(model, Stack):
        yield "", model
    yield from ((f"{step}.", child) for step, child in children(model) if isinstance(child, Stack))


class Decoder(Model, Stack):
    """A decoder-only language model: tokens [B, T] to logits [B, T, V], or with `head: null` to hidden states [B, T, D]."""

    kind: Literal["decoder"] = "decoder"
    head: Head | None = Field(default_factory=Head)

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, past: Number = 0, cache: Cached = None, last_only: bool = False
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V], or [B, 1, V] with `last_only`, and the cache afterwards.

        `cache` None caches nothing, `()` starts one, anything else is what the last call returned; `positions` [T] left
        out start at 0.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        x, kept = self.run(x, Context(positions, past, cache=cache))
        x = self.embedding.narrowed(self.finish(KeepLast("last")(x) if last_only else x))
        if self.head is None:
            return x, kept
        logits: Tensor = self.head(x, self.vocab_size, table if self.embedding.tied else None, name="lm_head")
        return logits, kept


class Encoder(Model, Stack):
    """An encoder: tokens [B, T] to hidden states [B, T, D], all of which see each other.

    BERT, Devlin et al. 2018, arXiv:1810.04805.

    `pooler` adds tanh(W x + b) of the first token, from which BERT classifies; `n_labels` a linear classifier of what
    is pooled, or without a pooler of every token; `head` guesses masked tokens. Layers state `causal: false`. Nothing
    is cached, and nothing is generated.
    """

    caches: ClassVar[bool] = False
    kind: Literal["encoder"] = "encoder"
    pooler: bool = False
    n_labels: Size | None = None
    head: MaskedHead | None = None

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, past: Number = 0, cache: Cached = None, last_only: bool = False
    ) -> tuple[Tensor | tuple[Tensor, Tensor], Cached]:
        """[B, 1 or T, labels] with labels, else the hidden states, pooled or not; never a cache.

        With a head logits [B, T, V], and beside a pooler or labels a pair of both: BERT's pre-training, section 3.1.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        x = self.finish(self.run(x, Context(positions, past))[0])
        y = self._pooled(x) if self.pooler else x
        if self.n_labels is not None:
            y = Linear("classifier", self.n_labels, True)(y, group="classifier")
        if self.head is None:
            return y, None
        logits: Tensor = self.head(self.embedding.narrowed(x), self.vocab_size, table if self.embedding.tied else None, name="lm_head")
        return (logits, y) if self.pooler or self.n_labels is not None else logits, None

    def _pooled(self, x: Tensor) -> Tensor:
        first = KeepFirst("first")(x)
        pooled: Tensor = Activate("pooler_tanh", "tanh")(Linear("pooler", x.shape[-1], True)(first, group="pooler"), group="pooler")
        return pooled


class EncoderStack(Stack):
    """The encoder half: source tokens or features to the memory [B, S, D] that the decoder attends to.

    `position` and `input_norm` are the encoder's own. With a `front_end` it reads features (Whisper's spectrogram) in
    place of tokens, and `source_len` is the fixed number of positions they make. `vocab_size` gives it a table of its
    own where source and target share none. `dropout` zeroes that share of what the layers read in training.
    """

    position: Position = Field(default_factory=NoPosition)
    input_norm: Norm | None = None
    front_end: ConvFrontEnd | None = None
    vocab_size: Size | None = None
    dropout: Share = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D], or features [B, channels, frames], to [B, S, D]."""
        x = x if self.front_end is None else self.front_end(x, name="front_end")
        positions = Positions("positions")(x)
        x = self.position(x, positions, name="position_embedding")
        x = x if self.input_norm is None else self.input_norm(x, name="input_norm")
        return self.finish(self.run(dropped(x, self.dropout), Context(positions))[0])


class DecoderStack(Stack):
    """The decoder half: layers with `cross_attention`."""

    def forward(self, x: Tensor, context: Context, last_only: bool = False) -> tuple[Tensor, Cached]:
        """[B, T, D] to [B, T, D], or [B, 1, D] with `last_only`, and the cache afterwards."""
        x, kept = self.run(x, context)
        return self.finish(KeepLast("last")(x) if last_only else x), kept


class EncoderDecoder(Model):
    """Source and target tokens to logits of the target. Vaswani et al. 2017, arXiv:1706.03762; T5, arXiv:1910.10683.

    One table embeds both languages unless the encoder has its own; `embedding.position` is the decoder's,
    `encoder.position` the encoder's. `source_len` fixes the encoder's length (Whisper 1500); left out it is given with
    each pass.
    """

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    source_len: Size | None = None
    encoder: EncoderStack
    decoder: DecoderStack
    head: Head | None = Field(default_factory=Head)

    def source_length(self, source_len: Number) -> Number:
        """As many as are asked for, or as the model itself states."""
        return source_len if self.source_len is None else self.source_len

    def source_shape(self, batch_size: Number, source_len: Number) -> Shape:
        """Ids [B, S], or the features that the front end turns into S positions."""
        length = self.source_length(source_len)
        front = self.encoder.front_end
        return (batch_size, length) if front is None else front.source_shape(batch_size, length)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
        source: Tensor | None = None,
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V] and the cache; `source` is read unless the cache already holds what was made of it."""
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        memory = None if cache or source is None else self._encoded(source, table)
        x, kept = self.decoder(x, Context(positions, past, cache=cache, memory=memory), last_only, name="decoder")
        if self.head is None:
            return x, kept
        logits: Tensor = self.head(x, self.vocab_size, table if self.embedding.tied else None, name="lm_head")
        return logits, kept

    def _encoded(self, source: Tensor, table: Tensor) -> Tensor:
        if self.encoder.vocab_size is not None:
            source = self.embedding.own_vectors(source, self.encoder.vocab_size, self.d_model, "source")
        elif self.encoder.front_end is None:
            source = self.embedding.vectors(source, table, "source")
        memory: Tensor = self.encoder(source, name="encoder")
        return memory

    def check(self) -> Iterator[tuple[str, str, str]]:
        """What the encoder reads is clear, and as wide as the stream."""
        yield from super().check()
        if self.encoder.vocab_size is not None and self.encoder.front_end is not None:
            yield "encoder.vocab_size", "an encoder reads tokens or features, not both", "leave vocab_size or front_end out"
        if self.encoder.front_end is not None and self.encoder.front_end.d_model != self.d_model:
            width = self.encoder.front_end.d_model
            yield "encoder.front_end.d_model", f"the front end makes vectors {width} wide, not {self.d_model}", "make both alike"
        if self.embedding.width is not None:
            yield "embedding.width", "an encoder-decoder's table is as wide as d_model", "leave width out"
