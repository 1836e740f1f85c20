"""The memory of a training step: forward, loss, backward and the optimizer's step, moment by moment.

The forward is traced once; the backward follows from that trace. The loss is in between: that of the model if
it trains on targets, else one of the logits, or of the hidden states if the loss runs the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archcli.arith import Number, minimum, prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import OpClass, Row, Tensor, tree_map
from archcli.measure.weights.stored_bytes import packed_parts, weight_bytes
from archcli.modules import Model
from archcli.modules.models.layers import layer_count
from archcli.modules.spec.base import substitute
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.trace import ADAPTERS
from archcli.wings.serving.launches.memory.storage import Moment, Recomputed, Step
from archcli.wings.serving.launches.memory.trainer import HELD
from archcli.wings.serving.launches.memory.written import ARCHCLI
from archcli.wings.serving.memory.pipeline import stages_of
from archcli.wings.serving.memory.plan import ONE_DEVICE
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import Place, Widths, gathered, placed_weights
from archcli.wings.serving.memory.traced import MemoryMoment, TracedModel, TracedPass, trace_memory
from archcli.wings.serving.memory.training.backward import Backward, BackwardMoment
from archcli.wings.serving.memory.training.held import Held
from archcli.wings.serving.memory.training.losses import (
    LAYER,
    SCALARS,
    SLICED,
    HeadSizes,
    LossBytes,
    LossForm,
    by_kernel,
    chunked,
    fused,
    parse_loss,
    plain,
    recomputed,
    sliced,
    tiled,
)
from archcli.wings.serving.memory.training.optimizers import optimizer, trained_tensors


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

    @property
    def in_ram(self) -> Mapping[str, Number]:
        """Bytes in the RAM of the node, by purpose."""
        if not self.traced.ledger.offloads:
            return self.held.in_ram
        return {**self.held.in_ram, "activations": self.held.in_flight * self.kept // self.held.parts}


def training_step(
    model: Model,
    settings: MemorySettings,
    held: Held | None = None,
    traced: TracedPass | None = None,
    known: TracedModel | None = None,
) -> TrainingStep:
    """Trace a training step of the model on one device.

    held: None if the device holds the whole model.
    traced: the pass, if it is traced already.
    known: keeps traced passes of the model.
    Raises ArchError for settings that the model cannot have.
    """
    known = known or TracedModel(model)
    held = held or held_alone(model, settings, known)
    traced = traced or known.once(_pass_settings(model, settings), lambda: _trace(model, settings))
    moments = _moments(model, traced, parse_loss(settings.loss), held)
    return TrainingStep(traced, held, tuple(_by_trainer(moments, traced, model, settings, held)))


def _pass_settings(model: Model, settings: MemorySettings) -> MemorySettings:
    """A key of traced passes: the settings, without those that do not change the pass."""
    loss = "fused" if _ends_before_head(model, settings) else "plain"
    return replace(settings, optimizer="", grad_accum=1, loss=loss)


def _ends_before_head(model: Model, settings: MemorySettings) -> bool:
    """Whether the loss runs the head, so that the pass ends with the hidden states."""
    return parse_loss(settings.loss).has_head and model.output_head is not None


def _trace(model: Model, settings: MemorySettings) -> TracedPass:
    """The pass of a step: where the loss runs the head, up to the hidden states."""
    return trace_memory(
        _without_head(model) if _ends_before_head(model, settings) else model,
        settings.request(model),
        settings.execution(),
        replace(recomputed(settings.recompute) or Recomputed(), offloads=settings.offloads("activations")),
        code=ARCHCLI if settings.trainer is None else settings.trainer.code(model),
    )


def held_alone(model: Model, settings: MemorySettings, known: TracedModel | None = None) -> Held:
    """The bytes on a device that trains the model alone."""
    rows = (known or TracedModel(model)).trained_rows(settings.request(model))
    summed = settings.gradient_width
    tensors = tuple(trained_tensors(rows, int(settings.trained_width), summed))
    gradients = sum((tensor.elements * summed * tensor.count for tensor in tensors), 0)
    state = optimizer(settings.optimizer, settings.backend).state(tensors)
    stored = weight_bytes(model, rows, settings.dtype)
    weights = stored * (1 + _is_copied(model, settings)) + _wider(rows, model, settings)
    held = Held(weights, gradients, state, accumulates=ONE_DEVICE.sums_gradients(settings))
    if settings.offload is None:
        return held
    (stage,) = stages_of(ONE_DEVICE, layer_count(model))
    layers = gathered(ONE_DEVICE, tuple(placed_weights(model, rows, settings.width)), stage, from_ram=True)
    return held.offloaded(settings, ONE_DEVICE, layers.bytes(Widths(settings.width, summed), 1))


def _is_copied(model: Model, settings: MemorySettings) -> bool:
    """Whether a frozen copy of the model lies beside it, as the reference of preferences."""
    return settings.trainer is not None and bool(settings.trainer.reference) and model.lora is None


def _wider(rows: Iterable[Row], model: Model, settings: MemorySettings) -> Number:
    """Bytes by which adapters are larger than in the type of the weights beside them."""
    rest = model.quantization.rest if model.quantization else None
    more = settings.trained_width - to_bytes(1, rest or settings.dtype)
    return more * sum(row.params for row in rows if row.group == ADAPTERS) if settings.trained else 0


def _moments(model: Model, traced: TracedPass, form: LossForm, held: Held) -> Iterator[MemoryMoment]:
    """The moments of forward, loss, backward and the optimizer's step."""
    yield from _passes(model, traced, form, held)
    yield optimizer_moment(held)


def _by_trainer(
    moments: Iterable[MemoryMoment],
    traced: TracedPass,
    model: Model,
    settings: MemorySettings,
    held: Held,
) -> Iterator[MemoryMoment]:
    """The moments with what a trainer's loop holds: casts of weights, buckets, logits until it has others."""
    trainer = settings.trainer
    if trainer is None:
        yield from moments
        return
    form, output = parse_loss(settings.loss), first_tensor(traced.output)
    holds = trainer.outputs == HELD and form.has_logits and model.output_head is not None
    width = FP32 if form.kind == SLICED else output.value.place.width
    logits = prod((*output.shape[:-1], model.vocab_size)) * width if holds else 0
    # a scope of torch.autocast, which the first moment of the loss is still in, keeps its casts of weights
    casts = _cast_bytes(traced) if trainer.autocast and settings.trained_width > HALF else 0
    # of ZeRO 3 gathered layers are counted
    bucket = 0 if held.gathered else trainer.buckets * settings.width
    for moment in moments:
        in_loss, in_backward = moment.stage == "loss", moment.stage == "backward"
        # a loss in slices counts the logits that it reads itself
        more = 0 if in_loss and form.has_head else logits
        more += casts if in_loss else bucket if in_backward else 0
        yield moment._replace(temporaries=moment.temporaries + more)
        casts = 0 if in_loss else casts


def _cast_bytes(traced: TracedPass) -> Number:
    """Bytes of the weights of recomputed products in 16 bits; casts of others are kept for the backward."""
    steps = (step for step in traced.ledger.steps if step.region is not None and _is_trained(step))
    return sum(HALF * step.row.params for step in steps)


def _is_trained(step: Step) -> bool:
    return _multiplies(step.row) and bool(step.weight_gradients != 0)


def optimizer_moment(held: Held) -> MemoryMoment:
    """The moment of the optimizer's step, when no activation is alive any longer."""
    state = held.optimizer
    return MemoryMoment(
        "optimizer step", "", held.weights, held.gradients, state.device, temporaries=state.temporaries
    )


def _passes(model: Model, traced: TracedPass, form: LossForm, held: Held) -> Iterator[MemoryMoment]:
    """The moments of forward, loss and backward of the last micro batch."""
    ledger, (part, whole) = traced.ledger, held.share
    accumulated = held.gradients if held.accumulates else 0
    base = MemoryMoment("", "", held.weights, accumulated, held.optimizer.device)
    # activations of earlier micro batches, which wait for their backward
    waiting = (held.in_flight - 1) * ledger.held // held.parts
    copies = _dequantized(model, traced)

    def at(stage: str, place: Place, path: str, kept: Number, temporaries: Number) -> MemoryMoment:
        return base._replace(
            stage=stage,
            path=path,
            kept=waiting + kept // held.parts,
            gathered=held.gathered.get(place, 0),
            temporaries=temporaries + copies.get(path, 0),
        )

    for moment, place in _ahead(ledger.moments):
        yield at("forward", place, moment.path, moment.kept, moment.temporaries)
    losses = () if traced.has_targets else tuple(_losses(model, traced, form, held))
    alive = at("loss", "loss", "", ledger.held, ledger.live - ledger.held)
    for loss in losses:
        if held.accumulates:
            yield alive._replace(stage=loss.stage, loss=loss.accumulating)
        else:
            gradients = loss.gradients * part // whole
            yield alive._replace(stage=loss.stage, loss=loss.bytes, gradients=gradients)
    # a loss that runs the head has computed the gradient of its matrix before the backward begins
    of_loss = losses[-1].gradients if form.has_head and losses and _trains_head(model) else None
    for past, place in _back(_backward(model, traced, held, of_loss)):
        gradients = accumulated + past.gradients * part // whole
        moment_back = at("backward", place, past.path, past.kept, past.temporaries)
        yield moment_back._replace(gradients=gradients, loss=SCALARS)


def _backward(
    model: Model, traced: TracedPass, held: Held, of_head: Number | None
) -> Sequence[BackwardMoment]:
    """The moments of the backward from the output; `of_head`: bytes of the head's gradient from the loss."""
    backward = Backward(traced.ledger, accumulates=held.accumulates)
    if of_head is not None:
        backward.give(_head_weight(model), of_head)
    output = first_tensor(traced.output)
    place = output.value.place
    backward.run((place.value, prod(output.value.shape) * place.width))
    return backward.moments


def _ahead(moments: Iterable[Moment]) -> Iterator[tuple[Moment, Place]]:
    """Each moment of the forward with its place."""
    place: Place = "before"
    for moment in moments:
        place = "forward" if "layers." in moment.path else "before" if place == "before" else "behind"
        yield moment, place


def _back(moments: Sequence[BackwardMoment]) -> Iterator[tuple[BackwardMoment, Place]]:
    """Each moment of the backward with its place: from the last layer to the first."""
    layers = list(dict.fromkeys(match[0] for moment in moments if (match := LAYER.match(moment.path))))
    of_layers: dict[str, Place] = dict.fromkeys(layers, "backward")
    if len(layers) > 1:
        of_layers |= {layers[0]: "last", layers[-1]: "first"}
    outside: Place = "head"
    for moment in moments:
        match = LAYER.match(moment.path)
        outside = "end" if match else outside
        yield moment, of_layers[match[0]] if match else outside


def _dequantized(model: Model, traced: TracedPass) -> dict[str, Number]:
    """Bytes of the copy of a quantized matrix that a product computes with, by the product's path.

    bitsandbytes makes it in forward and backward, and frees it after the product (`MatMul4Bit`).
    """
    width = traced.execution.width
    rows = {row.path: row for row in traced.rows}
    multiplied = (path for path in packed_parts(model, traced.rows, width) if _multiplies(rows[path]))
    return {path: prod(rows[path].weights["weight"]) * width for path in multiplied}


def _multiplies(row: Row) -> bool:
    """Whether a matrix product reads the whole matrix; a lookup reads a few of its rows."""
    return any(part.op_class is OpClass.CONTRACTION for part in row.parts)


def _losses(model: Model, traced: TracedPass, form: LossForm, held: Held) -> Iterator[LossBytes]:
    """The moments of a loss outside of the model; none without a head."""
    if model.output_head is None:
        return
    output = first_tensor(traced.output)
    width = traced.execution.width
    *before, last = output.shape
    tokens = prod(before)
    if not form.has_head:
        # the output are the logits
        sizes = HeadSizes(tokens, last, 0, output.value.place.width, tied=False, split=held.splits_words)
        yield from plain(sizes) if form.kind == "plain" else by_kernel(sizes)
        return
    sizes = HeadSizes(tokens, model.vocab_size, last, width, model.embedding.tied, _trains_head(model))
    if form.kind == SLICED:
        yield from sliced(sizes, prod((*before[:-1], minimum(form.pieces, before[-1]))))
    elif form.kind == "fused":
        yield from fused(sizes)
    else:
        yield from (chunked if form.kind == "chunked" else tiled)(sizes, form.pieces)


HALF, FP32 = 2, 4
"""Bytes of a number in 16 and in 32 bits."""


def first_tensor(tree: Any) -> Tensor:
    """The first tensor in a model's output."""
    tensors: list[Tensor] = []
    tree_map(tensors.append, Tensor, tree)
    return tensors[0]


def _head_weight(model: Model) -> str:
    """The path of the head's matrix: a tied one is the token table."""
    return "embedding.tokens.weight" if model.embedding.tied else "lm_head.weight"


def _trains_head(model: Model) -> bool:
    """Whether the head's matrix gets a gradient: LoRA freezes it where it does not name it."""
    table = "embedding" if model.embedding.tied else "lm_head"
    return model.lora is None or table in model.lora.trained


def _without_head(model: Model) -> Model:
    """The model up to its hidden states. Raises ArchError where its head is more than one matrix."""
    if not _ends_in_one_matrix(model):
        what, hint = "only the loss of a linear head can be chunked or fused", "--loss plain"
        losses = [name for name in ("mtp", "loss") if model.value_of(name) is not None]
        if losses and _ends_in_one_matrix(model.replace(**dict.fromkeys(losses))):
            what = f"{what}, and this model states {' and '.join(losses)}"
            hint += f", or {' '.join(f'--set {name}=null' for name in losses)}"
        raise ArchError(what, hint)
    return substitute(model, {"head": None})


def _ends_in_one_matrix(model: Model) -> bool:
    """Whether training runs a single matrix after the hidden states."""
    head = model.output_head
    lora = model.lora
    is_adapted = lora is not None and not {"lm_head", "embedding"}.isdisjoint((*lora.targets, *lora.saved))
    is_linear = head is not None and (kind_of(head) or "linear") == "linear"
    return is_linear and not model.trains_on_targets and not is_adapted
