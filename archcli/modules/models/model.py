"""Model: what every model states besides its layers, its training recipe, and how it is called.

B batch, T new tokens, V vocab_size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Row
from archcli.modules.ends.embedding import Embedding
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import stacks
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Size, Spec, substitute
from archcli.modules.spec.request import InputSpec, Media, Medium, Request
from archcli.modules.spec.trace import PLACING
from archcli.modules.spec.unread import Holder
from archcli.modules.spec.values import Interval
from archcli.units import FIGURE, ROUNDED

if TYPE_CHECKING:
    from os import PathLike

    from archcli.modules import Tower
    from archcli.modules.adapters.lora import LoRA
    from archcli.modules.spec.degrees import Degrees
    from archcli.modules.stored.quantization import Quantization

LINES, NOTEBOOK = "archcli.measure.survey.lines", "archcli.render.notebook"
"""What counts and what draws a model for a notebook: by name, as both read models."""
M = TypeVar("M", bound="Model")
ModelLike: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Model"
"""What stands for an architecture: a path, a name, a mapping as YAML or config.json hold it, a `Model`."""
RELEASED = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?", re.ASCII)
"""A year, or a year and a month."""


class Model(Holder):
    """Base of all models: vocabulary, widths, norm and embedding, but not the layers.

    `norm` is what every layer uses that names none of its own, and what follows the last layer.
    `max_seq_len` is the context it was trained for: it sizes a learned position table and is otherwise a
    note. `published` holds figures a paper or a checkpoint states, which tests compare with what is counted:
    7615616512, or rounded as it is printed, 7.62B. `released` is when it was first public: a year, or
    "2024-07". `series` is the line of models it belongs to: llama, gpt; `sibling_of` names the preset that
    stands for its generation in surveys and in the evidence of rules. None changes a count. `lora` adds
    low-rank adapters, which alone are trained; `quantization` says in how many bits the weights are stored.
    `published_in` is the form that weights were published in, where it is not bf16: `memory` and `predict`
    begin with it, and --dtype asks for another. `ignore` lists codes of rules that `archcli check` is to
    leave out, `training` what of the recipe those rules judge; neither is counted. `unread` are parameters
    that are stored and read by no pass, by name with how many numbers each is, or its shape (vectors of
    Molmo 2's image tokens, a second table of BART's). `towers` are encoders of images and sounds
    beside the language model, whose vectors take the place of tokens; its own figures are without them.
    `beside` are parts that no pass over text, images or sounds runs, by name with their parameters (Janus's
    image_generator). `uncounted` names parts that the whole has and that are not stated here, such as an
    unknown tower.
    """

    family: ClassVar[str] = "model"
    name: str = ""
    source: str = ""
    released: int | str | None = None
    series: str = ""
    sibling_of: str = ""
    published: Mapping[str, int | str] = {}
    ignore: tuple[str, ...] = ()
    training: Training | None = None
    vocab_size: Size
    d_model: Size
    max_seq_len: Size | None = None
    norm: Norm
    embedding: Embedding = Embedding()
    lora: LoRA | None = None
    quantization: Quantization | None = None
    published_in: Quantization | None = None
    towers: tuple[Tower, ...] = ()
    beside: Mapping[str, Size] = {}
    uncounted: tuple[str, ...] = ()

    apart: ClassVar[frozenset[str]] = frozenset({"towers"})
    caches: ClassVar[bool] = True
    """Whether it generates token by token, and so has a cache to fill."""
    degrees: ClassVar[Degrees | None] = None
    """How many ranks share the model, where it is one rank's share."""

    def _repr_html_(self) -> str:
        """The model in five lines, as a notebook shows it."""
        html: str = import_module(NOTEBOOK).lines_html(import_module(LINES).model_lines(self))
        return html

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """The same as text, which IPython prints; `repr` has every field."""
        printer.text("\n".join(import_module(LINES).model_lines(self)))

    @property
    def output_head(self) -> Any:
        """The head that gives logits; None for a model that ends with hidden states."""
        return getattr(self, "head", None)  # kinds of models that have none have no such key

    @property
    def z_loss_weight(self) -> float | None:
        """The weight of the z-loss in what training minimizes; None without one."""
        weight: float | None = getattr(getattr(self, "loss", None), "z_loss", None)
        return weight

    @property
    def logit_softcap(self) -> float | None:
        """The bound c of logits, c tanh(x/c); None where nothing bounds them."""
        softcap: float | None = getattr(self.output_head, "softcap", None)
        return softcap

    @property
    def layer_embedding(self) -> Any:
        """The table that gives every layer embeddings of its own; None without one."""
        return getattr(self, "per_layer_embedding", None)

    @property
    def stored_as(self) -> str:
        """The name of the format that its weights are stored in, such as q4_k_m; empty for none."""
        return (self.quantization.format if self.quantization is not None else None) or ""

    @property
    def unknown_form(self) -> str:
        """The file's name for a form of weights of unknown bytes; empty for a known one."""
        return "" if self.quantization is None else self.quantization.unknown

    @property
    def is_as_published(self) -> bool:
        """Whether its weights are stored in the form that they were published in."""
        return self.quantization is not None and self.quantization == self.published_in

    def as_published(self) -> Self:
        """The model in its published form; unchanged if it states a quantization."""
        if self.published_in is None or self.quantization is not None:
            return self
        return self.replace(quantization=self.published_in)

    @property
    def adapted(self) -> Any:
        """The module to trace: the model, with LoRA adapters where it states them."""
        return self if self.lora is None else self.lora.adapted(self)

    @property
    def media(self) -> tuple[str, ...]:
        """The kinds of media that it reads beside or in the place of text; empty for text alone."""
        return tuple(dict.fromkeys(kind for tower in self.towers for kind in tower.media))

    @property
    def encoders(self) -> tuple[tuple[str, Any], ...]:
        """(beginning of its paths, encoder) of the towers beside it."""
        return tuple(
            (f"{tower.part}.{prefix}", encoder) for tower in self.towers for prefix, encoder in tower.encoders
        )

    def part_of(self, row: Row) -> str:
        """The part of a whole model that a row is in: a tower, `projector`, `placing`, `language_model`."""
        for tower in self.towers:
            if row.path.startswith(f"{tower.part}."):
                return tower.part_of(replace(row, path=row.path.removeprefix(f"{tower.part}.")))
        return row.group if row.group == PLACING else "language_model"

    def fitted(self, request: Request) -> Request:
        """The request with the tokens that its media become beside its text; ArchError for media not read."""
        if request.in_prompt:
            return request
        more = self.media_tokens(request.media)
        length = "past" if request.phase == "decode" else "seq_len"
        tokens = getattr(request, length) + more
        return replace(request, media=(), **{length: tokens}) if more else request

    def placing(self, request: Request) -> Request:
        """The request whose pass runs the towers, too; without media, and in decoding, as `fitted`."""
        fitted = self.fitted(request)
        if not (self.towers and request.media) or request.phase == "decode":
            return fitted
        return replace(fitted, media=request.media, in_prompt=True)

    def with_media(self, media: Media) -> Self:
        """The model with what layers read of these media beside its tokens; itself where none does."""
        return self

    def media_tokens(self, media: Sequence[Medium]) -> int:
        """The tokens that media take in the prompt; ArchError for media not read."""
        return sum(self.tower_of(medium).prompt_tokens(medium) for medium in media)

    def source_tokens(self, media: Sequence[Medium]) -> int:
        """The media's tokens that a text encoder reads; 0 without an encoder."""
        return 0

    def tower_of(self, medium: Medium) -> Tower:
        """The tower that reads a medium; ArchError where none does."""
        tower = next((tower for tower in self.towers if medium.kind in tower.media), None)
        if tower is not None:
            return tower
        if self.uncounted:
            what = f"{self.name or 'this model'} has parts that are not known: {', '.join(self.uncounted)}"
            raise ArchError(f"{what}; no {medium.kind} can be counted", "ask for its text alone")
        kinds = " and ".join(self.media)
        what = f"{self.name or 'this model'} reads {f'text and {kinds}' if kinds else 'text alone'}"
        more = "" if kinds else ": it has no part for images or sounds"
        raise ArchError(what + more, "leave --image, --video and --audio-… out")

    def tokens_of(self, medium: Medium) -> int:
        """How many tokens a medium becomes; ArchError for one that is not read."""
        return self.tower_of(medium).tokens_of(medium)

    def source_length(self, source_len: Number) -> Number | None:
        """The encoder's positions for a requested `source_len`; None without an encoder."""
        return None

    @property
    def trains_on_targets(self) -> bool:
        """Whether a training pass needs targets [B, T] for a loss, rather than ending with the logits."""
        return False

    @property
    def mtp_depth(self) -> int:
        """The number of tokens after the next one that training also predicts."""
        return 0

    def require_tokens(self, seq_len: Number) -> None:
        """Raise ArchError where there are too few tokens to train on."""
        if self.mtp_depth and is_whole(seq_len) and seq_len <= self.mtp_depth:
            raise ArchError(
                f"{seq_len} tokens are too few to predict {self.mtp_depth} beyond the next",
                f"train on more than {self.mtp_depth}",
            )

    @property
    def token_multiple(self) -> int:
        """The fewest training tokens that make every stated share of targets a whole number."""
        return 1

    @property
    def trains_on_rows(self) -> bool:
        """Whether training computes other rows than inference, as with an adaptive head."""
        return False

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """The tensors a pass reads, by the names of `forward`'s arguments.

        Training has targets [B, T] only where the model goes on to a loss.
        """
        tokens = InputSpec((request.batch_size, request.seq_len), "ids", self.vocab_size)
        if request.phase == "train" and self.trains_on_targets:
            return {"tokens": tokens, "targets": tokens}
        return {"tokens": tokens}

    def reads(self, request: Request) -> dict[str, Any]:
        """The tensors of `inputs`, and of a pass with media in its prompt those of the media."""
        read: dict[str, Any] = {**self.inputs(request)}
        if request.in_prompt:
            media = request.media
            read["media"] = tuple(self.tower_of(medium).placed_spec(request, medium) for medium in media)
        return read

    def check(self) -> Iterator[Conflict]:
        """Conflicts of fields and layers; if the layers fit together, those that a trace shows, too."""
        yield from super().check()
        yield from _check_released(self)
        yield from _check_published(self)
        misfits = [conflict for check in FITTING for conflict in check(self)]
        yield from misfits
        for check in () if misfits else TRACED:
            yield from check(self)


def _check_released(model: Model) -> Iterator[Conflict]:
    if model.released is not None and not RELEASED.fullmatch(str(model.released)):
        what = f"released must be a year, or a year and a month, not {str(model.released)[:40]!r}"
        yield Conflict("released-date", "released", what, 'write 2024 or "2024-07"')


def _check_published(model: Model) -> Iterator[Conflict]:
    for name, figure in model.published.items():
        if isinstance(figure, str) and not ROUNDED.fullmatch(figure):
            what = f"{figure[:40]!r} is no figure"
            yield Conflict("published-figure", f"published.{name}", what, f"write {FIGURE}")


def _check_widths(model: Model) -> Iterator[Conflict]:
    """Conflicts of layers with the width of their stack, which may differ from d_model."""
    for step, stack in stacks(model):
        for conflict in stack.check_width(getattr(stack, "d_model", None) or model.d_model):
            yield conflict._replace(path=step + conflict.path)


def _check_shared(model: Model) -> Iterator[Conflict]:
    if any(stack.shares_blocks for _, stack in stacks(model)):
        from archcli.modules.models.shared_checks import check_shared  # rare

        yield from check_shared(model)


def _check_adapters(model: Model) -> Iterator[Conflict]:
    if any(stack.shares_blocks for _, stack in stacks(model)):
        from archcli.modules.models.shared_checks import check_adapters  # rare

        yield from check_adapters(model)


def _check_lora(model: Model) -> Iterator[Conflict]:
    return iter(()) if model.lora is None else model.lora.check_model(model)


def _check_quantization(model: Model) -> Iterator[Conflict]:
    forms = {name: getattr(model, name) for name in ("quantization", "published_in")}
    for name, form in forms.items():
        if form is not None and not (name == "published_in" and model.is_as_published):
            yield from form.check_model(model, LayerIndex(model), name)


FITTING = (_check_widths, _check_shared)
"""Checks of layers with d_model and with each other; those that do not fit have no trace."""
TRACED = (_check_adapters, _check_lora, _check_quantization)
"""Checks that read the rows of a trace."""


def inferring(model: M) -> M:
    """The model without multi-token prediction, which runs in training alone."""
    # `substitute` checks nothing anew: what is left was valid beside mtp
    return substitute(model, {"mtp": None}) if model.mtp_depth else model


Share = Annotated[float, Interval(ge=0)]


class Training(Spec):
    """Notes of a recipe; what is left out is not judged.

    `dropout` and `weight_decay` are those of pretraining, `decay_norms` whether norms and biases decay too,
    `warmup_steps` how many steps the learning rate rises.
    """

    dropout: Share | None = None
    weight_decay: Share | None = None
    decay_norms: bool | None = None
    warmup_steps: Count | None = None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a dropout share of 1 or more."""
        if self.dropout is not None and self.dropout >= 1:
            yield Conflict(
                "dropout-below-one", "dropout", f"dropout {self.dropout} drops everything", "a share below 1"
            )
