"""The memory of a training step: forward, loss, backward and the optimizer's step, moment by moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archcli.arith import Number, prod
from archcli.errors import ArchError
from archcli.graph import Tensor, tree_map
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.traced import MemoryMoment, TracedModel, TracedPass, trace_memory
from archcli.measure.memory.training.backward import Backward
from archcli.measure.memory.training.losses import (
    SCALARS,
    HeadSizes,
    LossBytes,
    LossForm,
    chunked,
    fused,
    parse_loss,
    plain,
    recomputed,
)
from archcli.measure.memory.training.optimizers import OptimizerBytes, optimizer, trained_tensors
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.spec.base import substitute
from archcli.modules.spec.kinds import kind_of


class Held(NamedTuple):
    """Bytes that a device holds all through a step, and what it has of each gradient.

    `gathered` is of other devices' shares. `share` is (numerator, denominator) of the gradients that stay,
    `in_flight` how many micro batches' activations wait at once, each of one of `parts` groups of the layers.
    `accumulates`: gradients of earlier micro batches are there.
    """

    weights: Number
    gradients: Number
    optimizer: OptimizerBytes
    gathered: Number = 0
    share: tuple[Number, Number] = (1, 1)
    in_flight: int = 1
    parts: int = 1
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A traced training step: what it holds, and its moments."""

    traced: TracedPass
    held: Held
    moments: tuple[MemoryMoment, ...]

    @property
    def kept(self) -> Number:
        """Bytes that the forward keeps for the backward."""
        return self.traced.ledger.kept


def training_step(
    model: Model,
    settings: MemorySettings,
    held: Held | None = None,
    traced: TracedPass | None = None,
    known: TracedModel | None = None,
) -> TrainingStep:
    """Trace a training step of the model on one device.

    `held` left out is all of the model; `traced` is the step's pass where it is traced already, `known` the
    model with all that is. Raises ArchError for settings that the model cannot have.
    """
    known = known or TracedModel(model)
    held = held or held_alone(model, settings, known)
    traced = traced or known.once(_of_pass(model, settings), lambda: _traced(model, settings))
    return TrainingStep(traced, held, tuple(_moments(model, traced, parse_loss(settings.loss), held)))


def _of_pass(model: Model, settings: MemorySettings) -> MemorySettings:
    """The settings that the pass of a step depends on, all others at one value."""
    loss = "fused" if _ends_before_head(model, settings) else "plain"
    return replace(settings, optimizer="", grad_accum=1, loss=loss)


def _ends_before_head(model: Model, settings: MemorySettings) -> bool:
    """Whether the loss runs the head, so that the pass ends with the hidden states."""
    return parse_loss(settings.loss).has_head and model.output_head is not None


def _traced(model: Model, settings: MemorySettings) -> TracedPass:
    """The pass of a step: where the loss runs the head, up to the hidden states."""
    outside = _ends_before_head(model, settings)
    return trace_memory(
        _without_head(model) if outside else model,
        settings.request(model),
        settings.execution(),
        recomputed(settings.recompute),
    )


def held_alone(model: Model, settings: MemorySettings, known: TracedModel | None = None) -> Held:
    """What one device holds that trains all of the model."""
    known = known or TracedModel(model)
    rows = known.once("trained rows", lambda: shape_pass(model, settings.request(model)).rows)
    tensors = tuple(trained_tensors(rows, settings.width))
    gradients = sum((tensor.bytes * tensor.count for tensor in tensors), 0)
    state = optimizer(settings.optimizer, settings.backend).state(tensors)
    weights = weight_bytes(model, rows, settings.dtype)
    return Held(weights, gradients, state, accumulates=settings.grad_accum > 1)


def _moments(model: Model, traced: TracedPass, form: LossForm, held: Held) -> Iterator[MemoryMoment]:
    """The moments of forward, loss, backward and the optimizer's step."""
    state = held.optimizer
    yield from _passes(model, traced, form, held)
    yield MemoryMoment(
        "optimizer step", "", held.weights, held.gradients, state.device, temporaries=state.temporaries
    )


def _passes(model: Model, traced: TracedPass, form: LossForm, held: Held) -> Iterator[MemoryMoment]:
    """The moments of forward, loss and backward of the last micro batch under way."""
    ledger, (part, whole) = traced.ledger, held.share
    there = held.gradients if held.accumulates else 0
    base = MemoryMoment("", "", held.weights, there, held.optimizer.device, gathered=held.gathered)
    waiting = (held.in_flight - 1) * ledger.kept // held.parts

    def kept(size: Number) -> Number:
        return waiting + size // held.parts

    for moment in ledger.moments:
        yield base._replace(
            stage="forward", path=moment.path, kept=kept(moment.kept), temporaries=moment.temporaries
        )
    output = first_tensor(traced.output)
    alive = base._replace(stage="loss", kept=kept(ledger.kept), temporaries=ledger.live - ledger.kept)
    losses = () if traced.has_targets else tuple(_losses(model, traced, form, output))
    for loss in losses:
        if held.accumulates:
            yield alive._replace(loss=loss.accumulating)
        else:
            yield alive._replace(loss=loss.bytes, gradients=loss.gradients * part // whole)
    backward = Backward(ledger, accumulates=held.accumulates)
    if form.has_head and losses and _trains_head(model):
        backward.give(_head_weight(model), losses[-1].gradients)
    place = output.value.place
    backward.run((place.value, prod(output.value.shape) * place.width))
    for past in backward.moments:
        yield base._replace(
            stage="backward",
            path=past.path,
            kept=kept(past.kept),
            gradients=there + past.gradients * part // whole,
            loss=SCALARS,
            temporaries=past.temporaries,
        )


def _losses(model: Any, traced: TracedPass, form: LossForm, output: Tensor) -> Iterator[LossBytes]:
    """The moments of the loss that stands outside of the model."""
    width = traced.execution.width
    tokens = prod(output.shape[:-1])
    if model.output_head is None:
        return
    if form.has_head:
        tied = model.embedding.tied
        sizes = HeadSizes(tokens, model.vocab_size, output.shape[-1], width, tied, _trains_head(model))
        yield from chunked(sizes, form.chunks) if form.kind == "chunked" else fused(sizes)
    else:
        yield from plain(HeadSizes(tokens, output.shape[-1], 0, width, tied=False))


def first_tensor(tree: Any) -> Tensor:
    """The first tensor of what a model returns."""
    tensors: list[Tensor] = []
    tree_map(tensors.append, Tensor, tree)
    return tensors[0]


def _head_weight(model: Any) -> str:
    """The path of the weight that the head multiplies by."""
    return "embedding.tokens.weight" if model.embedding.tied else "lm_head.weight"


def _trains_head(model: Any) -> bool:
    """Whether the head's matrix gets a gradient: LoRA freezes it."""
    return model.lora is None


def _without_head(model: Any) -> Model:
    """The model up to its hidden states; ArchError where its head is more than one matrix."""
    if not _ends_in_one_matrix(model):
        what, hint = "only the loss of a linear head can be chunked or fused", "--loss plain"
        own = [name for name in ("mtp", "loss") if getattr(model, name, None) is not None]
        if own and _ends_in_one_matrix(model.replace(**dict.fromkeys(own))):
            what = f"{what}, and this model states {' and '.join(own)}"
            hint += f", or {' '.join(f'--set {name}=null' for name in own)}"
        raise ArchError(what, hint)
    hidden: Model = substitute(model, {"head": None})
    return hidden


def _ends_in_one_matrix(model: Any) -> bool:
    """Whether all that training does behind the hidden states is to multiply by one matrix."""
    head = model.output_head
    adapted = model.lora is not None and {"lm_head", "embedding"} & {*model.lora.targets}
    is_linear = head is not None and (kind_of(head) or "linear") == "linear"
    return is_linear and not model.trains_on_targets and not adapted
