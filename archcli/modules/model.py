"""Models: token ids in, logits or hidden states out.

B batch, T new tokens, S source tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.base import Conflict, Module, Size, substitute
from archcli.modules.context import Context
from archcli.modules.embedding import Embedding, Head, MaskedHead
from archcli.modules.head import OutputHead, words
from archcli.modules.layers import LayerIndex
from archcli.modules.norm import Norm
from archcli.modules.request import InputSpec, Request
from archcli.modules.stack import Cached, Stack, stacks
from archcli.ops import Activate, KeepFirst, KeepLast, Linear, Positions

if TYPE_CHECKING:  # fields of few models, imported where one is given a value
    from archcli.modules.lora import LoRA
    from archcli.modules.loss import Likelihood, Loss
    from archcli.modules.mtp import MultiTokenPrediction
    from archcli.modules.quantization import Quantization
    from archcli.modules.training import Training

M = TypeVar("M", bound="Model")
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
    published: Mapping[str, int] = {}
    ignore: tuple[str, ...] = ()
    training: Training | None = None
    vocab_size: Size
    d_model: Size
    max_seq_len: Size | None = None
    norm: Norm
    embedding: Embedding = Embedding()
    lora: LoRA | None = None
    quantization: Quantization | None = None

    caches: ClassVar[bool] = True
    """Whether it generates token by token, and so has a cache to fill."""

    @property
    def adapted(self) -> Any:
        """What reads its forward: itself, or itself with the adapters it states."""
        return self if self.lora is None else self.lora.adapted(self)

    def source_length(self, source_len: Number) -> Number | None:
        """How many positions an encoder-decoder's encoder has where `source_len` are asked for; None for any other model."""
        return None

    @property
    def trains_on_targets(self) -> bool:
        """Whether a training pass needs targets [B, T]: it goes on to a loss. Else it ends with the logits."""
        return False

    @property
    def mtp_depth(self) -> int:
        """How many tokens beyond the next one training predicts."""
        return 0

    def require_tokens(self, seq_len: Number) -> None:
        """Raises ArchError where so many tokens are too few to train on."""
        if self.mtp_depth and isinstance(seq_len, int) and seq_len <= self.mtp_depth:
            raise ArchError(
                f"{seq_len} tokens are too few to predict {self.mtp_depth} beyond the next",
                f"train on more than {self.mtp_depth}",
            )

    @property
    def token_multiple(self) -> int:
        """The fewest tokens to train on of which every stated share of targets is a whole number."""
        return 1

    @property
    def trains_on_rows(self) -> bool:
        """Whether training computes something else than the logits of all words."""
        return False

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """The tensors a pass reads, by the names of `forward`'s arguments.

        Training has targets [B, T] only where the model goes on to a loss.
        """
        tokens = InputSpec((request.batch_size, request.seq_len), "ids", self.vocab_size)
        if request.phase == "train" and self.trains_on_targets:
            return {"tokens": tokens, "targets": tokens}
        return {"tokens": tokens}

    def check(self) -> Iterator[Conflict]:
        """Every layer fits d_model; what is spoken of by name is there; a date is one."""
        yield from super().check()
        if self.released is not None and not RELEASED.fullmatch(str(self.released)):
            yield Conflict(
                "released-date",
                "released",
                f"released must be a year, or a year and a month, not {str(self.released)[:40]!r}",
                'write 2024 or "2024-07"',
            )
        fits = True
        for step, stack in stacks(self):
            for conflict in stack.check_width(self.d_model):
                fits = False
                yield conflict._replace(path=step + conflict.path)
        if self.lora is not None and fits:
            yield from self.lora.check_model(self)
        if self.quantization is not None and fits:
            yield from self.quantization.check_model(self, LayerIndex(self))


def inferring(model: M) -> M:
    """The model without what only training runs: multi-token prediction, where there is any."""
    return substitute(model, {"mtp": None}) if model.mtp_depth else model


class Generator(Model):
    """A model that predicts the next token, and what it is trained with.

    `loss` is what training minimizes; left out, a training pass ends with the logits, or where head or mtp need targets with
    their cross entropy.
    """

    head: OutputHead | None = Head()
    loss: Loss | None = None

    @property
    def trains_on_targets(self) -> bool:
        """Where there is a loss, or a head that needs targets."""
        return self.loss is not None or self.trains_on_rows

    @property
    def trains_on_rows(self) -> bool:
        """As its head says."""
        return self.head is not None and self.head.by_targets

    @property
    def token_multiple(self) -> int:
        """As its head says."""
        return 1 if self.head is None else self.head.token_multiple

    def logits_or_loss(self, x: Tensor, table: Tensor, targets: Tensor | None = None) -> Tensor:
        """What follows the last layer: x [B, T, D] to logits [B, T, V], with targets [B, T] to the loss; without a head x itself."""
        if self.head is None:
            return x
        tied = table if self.embedding.tied else None
        if targets is None:
            logits: Tensor = self.head(x, self.vocab_size, tied, name="lm_head")
            return logits
        scored: Likelihood = self.head(x, self.vocab_size, tied, targets, name="lm_head")
        from archcli.modules.loss import USUAL  # needed by training alone

        loss: Tensor = (self.loss or USUAL)(*scored, name="loss")
        return loss

    def check(self) -> Iterator[Conflict]:
        """Head, loss and embedding fit each other."""
        yield from super().check()
        head = self.head
        if head is None and self.loss is not None:
            yield Conflict("loss-needs-head", "loss", "a loss needs a head", "add head, or leave loss out")
        if head is None:
            return
        width = self.embedding.width or self.d_model
        yield from (conflict.below("head") for conflict in head.check_sizes(self.vocab_size, width))
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
    """A decoder-only language model: tokens [B, T] to logits [B, T, V], or with `head: null` to hidden states [B, T, D].

    `mtp` adds layers that predict further tokens, in training alone.
    """

    kind: Literal["decoder"] = "decoder"
    mtp: MultiTokenPrediction | None = None

    @property
    def trains_on_targets(self) -> bool:
        """Where there is a loss, a head that needs targets, or multi-token prediction."""
        return super().trains_on_targets or self.mtp is not None

    @property
    def mtp_depth(self) -> int:
        """The depth of multi-token prediction."""
        return 0 if self.mtp is None else self.mtp.depth

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
        targets: Tensor | None = None,
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V], or [B, 1, V] with `last_only`, or with targets [B, T] the loss; and the cache afterwards.

        `cache` None caches nothing, `()` starts one, anything else is what the last call returned; `positions` [T] left
        out start at 0.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        x, kept = self.run(x, Context(positions, past, cache=cache))
        y = self.embedding.project_out(self.apply_final_norm(KeepLast("last")(x) if last_only else x))
        answer = self.logits_or_loss(y, table, targets)
        if self.mtp is None or self.head is None or targets is None:
            return answer, kept
        matrix = table if self.embedding.tied else words(y, self.vocab_size, None, "lm_head")
        from archcli.modules.mtp import Shared

        shared = Shared(
            self.embedding,
            table,
            self.head,
            matrix,
            self.mtp.layer or self.groups[-1].blocks[-1],
            self.vocab_size,
        )
        return self.mtp.add_losses(answer, x, targets, shared), kept

    def check(self) -> Iterator[Conflict]:
        """What multi-token prediction borrows can be borrowed."""
        yield from super().check()
        if self.mtp is not None:
            yield from self.mtp.check_shared(
                self.embedding, self.head, self.d_model, biased=self.score_bias is not None
            )


class Encoder(Model, Stack):
    """An encoder: tokens [B, T] to hidden states [B, T, D], all of which see each other.

    BERT, Devlin et al. 2018, arXiv:1810.04805.

    `pooler` adds tanh(W x + b) of the first token, from which BERT classifies; `n_labels` a linear classifier of what
    is pooled, or without a pooler of every token; `head` guesses masked tokens. Layers state `causal: false`. Nothing
    is cached, and nothing is generated.
    """

    caches: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False
    kind: Literal["encoder"] = "encoder"
    pooler: bool = False
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

        With a head logits [B, T, V], and beside a pooler or labels a pair of both: BERT's pre-training, section 3.1.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        x = self.apply_final_norm(self.run(x, Context(positions, past))[0])
        y = self._pooled(x) if self.pooler else x
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
        first = KeepFirst("first")(x)
        pooled: Tensor = Activate("pooler_tanh", "tanh")(
            Linear("pooler", x.shape[-1], True)(first, group="pooler"), group="pooler"
        )
        return pooled
