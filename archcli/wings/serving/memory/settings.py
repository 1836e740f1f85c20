"""MemorySettings: phase, sizes, dtype and options that the memory of a model depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from archcli.arith import Number, to_bytes
from archcli.errors import ArchError
from archcli.graph.kept import Backend, Execution
from archcli.measure.kvcache.engine import ANY_ENGINE, CACHING, ChosenEngine
from archcli.measure.weights.stored_bytes import in_format
from archcli.modules import Model
from archcli.modules.spec.arguments import GradientDtype
from archcli.modules.spec.request import USUAL_TOKENS, Media, Request, usual_tokens
from archcli.modules.spec.values import (
    AboveZero,
    SizeAboveZero,
    SizeFromZero,
    ZeroOrMore,
    check_values,
    value_type,
)
from archcli.wings.serving.launches.memory.trainer import FLEX, NO_TRAINER, ChosenTrainer
from archcli.wings.serving.memory.offload import ChosenOffload, Part
from archcli.wings.serving.memory.reserved.reserves import reserves_of

MemoryPhase = Literal["train", "forward", "prefill", "decode", "serve"]
AttentionForm = Literal["flash", "sdpa", "eager"]
FP8 = "fp8"
DEFAULT_TOKENS = USUAL_TOKENS
COMPUTED = ("bf16", "fp16", "fp32")
"""Types that torch computes a model in."""
ABSORBED = {"mla": "absorbed"}
"""The form in which few tokens read a cache of latents, as a decoded one does."""
NOT_EMPTY = value_type(AboveZero | None)


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Phase and sizes, dtype and kernels, and for training the optimizer, recomputation and loss.

    batch_size: in training the micro batch of one replica, otherwise all sequences in flight.
    seq_len: tokens of a sequence; None is 2048, or max_seq_len where that is less. In decoding they are in
        the cache already, and one more is new.
    source_len: tokens of an encoder's sequence; None is `seq_len`.
    chunk: the tokens of each piece into which a prefill is cut.
    cache_dtype: of a served cache; None is `dtype`.
    past: tokens that a prefill finds in the cache.
    engine: what runs inference; None is eager torch, and of serving what all engines have in common.
    new: tokens that serving generates for each sequence, which the cache has room for.
    gradients: the dtype that gradients are summed and kept in; None is `dtype`.
    offload: what of the model, or of a training step, lies in RAM; None is nothing but tables.
    media: the image or sound that an encoder of them reads; left out, one of its usual size.
    split: bytes of each of several unlike devices, by which an engine that splits layers shares them out.
    trainer: what trains; None is the model as archcli builds it.
    trained: the dtype of the weights that train; empty is `dtype`.
    verifies: a prefill of drafted tokens, which all have logits.

    Raises ArchError for a value that a field does not accept.
    """

    phase: MemoryPhase = "train"
    batch_size: SizeAboveZero = 1
    seq_len: SizeFromZero | None = None
    source_len: SizeAboveZero | None = None
    dtype: str = "bf16"
    attention: AttentionForm = "flash"
    backend: Backend = "cuda"
    optimizer: str = "adamw-mixed"
    recompute: str = "none"
    loss: str = "plain"
    grad_accum: AboveZero = 1
    chunk: AboveZero | None = None
    cache_dtype: str | None = None
    past: ZeroOrMore = 0
    engine: ChosenEngine = None
    new: ZeroOrMore = 0
    gradients: GradientDtype | None = None
    offload: ChosenOffload = None
    media: Media = ()
    split: tuple[AboveZero, ...] = ()
    trainer: ChosenTrainer = None
    trained: str = ""
    # without repr, by which sizes are recorded that no draft changes
    verifies: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.engine is None and self.phase == "serve":
            object.__setattr__(self, "engine", ANY_ENGINE)  # and so of its prefill and decoding, by `replace`
        # a token can be decoded against an empty cache; any other pass has tokens
        check_values("memory", self, **({} if self.phase == "decode" else {"seq_len": NOT_EMPTY}))

    def stored(self, model: Model, computed: str = COMPUTED[0]) -> tuple[Model, MemorySettings]:
        """The model with its weights in the format `dtype`, and the settings with the dtype that computes.

        Both are unchanged for a dtype that torch computes in. Layers that read images beside the tokens read
        those of `media`. Raises ArchError where the model cannot be stored so.
        """
        stored, dtype = in_format(model.with_media(self.media), self.dtype, COMPUTED, computed)
        # engines keep a cache of the model's dtype, unless the file has scales for another
        packed = stored.quantization if self.phase in CACHING else None
        cached = None if packed is None else packed.cache
        held, trained = (self.trainer or NO_TRAINER).held(stored)
        return held, replace(self, dtype=dtype, cache_dtype=self.cache_dtype or cached, trained=trained)

    def alone(self) -> MemorySettings:
        """The prefill of one sequence."""
        return replace(self, phase="prefill", batch_size=1)

    def tokens(self, model: Model) -> Number:
        """Tokens of a sequence: of its text, images and sounds."""
        if model.media and not model.towers:
            return model.fitted(Request(media=self.media)).seq_len
        text = self.text_tokens(model)
        # one token of text: a request has one at least
        return text + (model.fitted(Request(seq_len=1, media=self.media)).seq_len - 1 if self.media else 0)

    def source(self, model: Model) -> Number | None:
        """Tokens of an encoder's sequence, those of images and sounds among them; None is `seq_len`."""
        more = model.source_tokens(self.media)
        return (self.source_len or self.text_tokens(model)) + more if more else self.source_len

    def context(self, model: Model) -> Number:
        """Tokens of a sequence at its end: those before, its own and the new ones."""
        return self.past + self.tokens(model) + self.new

    def prompt_tokens(self, model: Model) -> Number:
        """Tokens of text and media, of an encoder-decoder those of its source."""
        return self.source(model) if model.source_tokens(self.media) else self.tokens(model)

    def text_tokens(self, model: Model) -> Number:
        """Tokens of a sequence without those of images and sounds."""
        if self.seq_len is not None:
            return self.seq_len
        return usual_tokens(model.max_seq_len)

    def of_length(self, model: Model, tokens: Number) -> MemorySettings:
        """The settings of sequences of so many tokens, those of their images and sounds among them."""
        media = () if model.towers else self.media
        return replace(self, seq_len=tokens, media=media, source_len=self.source(model))

    def decoding(self, model: Model, past: Number) -> MemorySettings:
        """One decoded token behind so many cached ones."""
        return replace(self.of_length(model, past), phase="decode")

    @property
    def width(self) -> Number:
        """Bytes of an element. Raises ArchError for a type that torch does not compute in."""
        if self.dtype not in COMPUTED:
            hint = f"{', '.join(COMPUTED)}, or a format of the weights alone: fp8, q4_k_m, nf4-double"
            raise ArchError(f"{self.dtype} is no dtype to compute in", hint)
        return to_bytes(1, self.dtype)

    @property
    def served(self) -> bool:
        """Whether an engine runs the pass that writes into a cache allocated before."""
        return self.engine is not None and self.engine.serves

    @property
    def splits_layers(self) -> bool:
        """Whether the engine gives each of several devices whole layers."""
        return self.engine is not None and self.engine.splits_layers

    @property
    def layers_in_ram(self) -> int:
        """The first layers that lie in RAM."""
        return 0 if self.offload is None else self.offload.layers

    def offloads(self, part: Part) -> bool:
        """Whether a part of a training step lies in RAM."""
        return self.offload is not None and part in self.offload.parts

    @property
    def trained_width(self) -> Number:
        """Bytes of an element of a weight that trains."""
        return to_bytes(1, self.trained) if self.trained else self.width

    @property
    def gradient_width(self) -> Number:
        """Bytes of an element of a kept gradient."""
        return to_bytes(1, self.gradients or self.trained or self.dtype)

    def execution(self) -> Execution:
        """How torch runs the pass."""
        fused, train = self.attention != "eager", self.phase == "train"
        served = self.engine if self.served else None
        scores = reserves_of(served).scores if served else None
        flex = self.trainer is None or self.trainer.attention == FLEX
        flex = flex and train and self.attention == "flash" and self.backend == "cuda"
        return Execution(self.backend, fused, self.width, train, served=self.served, scores=scores, flex=flex)

    @property
    def _forms(self) -> Mapping[str, str]:
        """The forms of modules in prompts that the engine runs in others than the usual ones."""
        latents = reserves_of(self.engine).latents if self.engine is not None and self.served else ""
        return {"mla": latents} if latents else {}

    def request(self, model: Model) -> Request:
        """The pass; of a prefill in chunks the last."""
        return self.requests(model)[-1]

    def requests(self, model: Model) -> tuple[Request, ...]:
        """The passes that may have the peak: of a prefill in chunks the last whole one and the remainder.

        The first chunk as well if there is an encoder, which that pass runs.
        """
        tokens, source = self.tokens(model), self.source(model)
        # beside a language model they are tokens of it already
        media = () if model.towers else self.media
        if self.phase == "train":
            return (Request("train", self.batch_size, tokens, source_len=source, media=media),)
        if self.phase == "forward":
            return (Request("forward", self.batch_size, tokens, source_len=source, media=media),)
        if self.phase == "decode":
            return (Request("decode", self.batch_size, 1, tokens, source),)
        if self.verifies:
            return (Request("prefill", self.batch_size, tokens, self.past, source, "all", ABSORBED),)
        if self.chunk is None or self.chunk >= tokens:
            return (
                Request("prefill", self.batch_size, tokens, self.past or None, source, forms=self._forms),
            )
        whole, rest = divmod(tokens, self.chunk)
        has_encoder = model.source_length(tokens) is not None
        pieces = {0: self.chunk} if has_encoder else {}
        pieces |= {(whole - 1) * self.chunk: self.chunk, **({whole * self.chunk: rest} if rest else {})}
        source = (source or tokens) if has_encoder else None
        return tuple(
            Request("prefill", self.batch_size, new, self.past + past, source, forms=self._forms)
            for past, new in pieces.items()
        )
