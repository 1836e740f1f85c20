"""The memory of a training step: forward, loss, backward and the optimizer's step, moment by moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, prod
from archcli.errors import ArchError
from archcli.graph import Tensor, tree_map
from archcli.measure.memory.moments import MemoryMoment
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.memory.traced import TracedPass, trace_memory
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
)
from archcli.measure.memory.training.optimizers import OptimizerBytes, optimizer
from archcli.measure.memory.training.recompute import recomputed
from archcli.measure.memory.training.trained_tensors import trained_tensors
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.base import substitute


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A traced training step: its moments, and what they are made of.

    `gradients` are the bytes of all gradients, `kept` those that the forward keeps.
    """

    traced: TracedPass
    weights: Number
    gradients: Number
    optimizer: OptimizerBytes
    moments: tuple[MemoryMoment, ...]

    @property
    def kept(self) -> Number:
        """Bytes that the forward keeps for the backward."""
        return self.traced.ledger.kept


def training_step(model: Model, settings: MemorySettings) -> TrainingStep:
    """Trace a training step of the model.

    Raises ArchError for settings that the model cannot have.
    """
    form = parse_loss(settings.loss)
    traced = trace_memory(
        _without_head(model) if form.has_head else model,
        settings.request(model),
        settings.execution(),
        recomputed(settings.recompute),
    )
    whole = shape_pass(model, settings.request(model)).rows
    tensors = tuple(trained_tensors(whole, settings.width))
    gradients = sum((tensor.bytes * tensor.count for tensor in tensors), 0)
    state = optimizer(settings.optimizer, settings.backend).state(tensors)
    weights = weight_bytes(model, whole, settings.dtype)
    base = MemoryMoment("", "", weights, gradients if settings.grad_accum > 1 else 0, state.device)
    moments = (
        *_passes(model, traced, form, base),
        MemoryMoment("optimizer step", "", weights, gradients, state.device, temporaries=state.temporaries),
    )
    return TrainingStep(traced, weights, gradients, state, moments)


def _passes(model: Model, traced: TracedPass, form: LossForm, base: MemoryMoment) -> Iterator[MemoryMoment]:
    """The moments of forward, loss and backward."""
    ledger = traced.ledger
    for moment in ledger.moments:
        yield base._replace(
            stage="forward", path=moment.path, kept=moment.kept, temporaries=moment.temporaries
        )
    output = first_tensor(traced.output)
    size = prod(output.value.shape) * output.value.place.width
    alive = base._replace(stage="loss", kept=ledger.kept, temporaries=ledger.live - ledger.kept)
    of_head: Number = 0
    if not traced.has_targets:
        for loss in _losses(model, traced, form, output):
            yield alive._replace(loss=loss.bytes, gradients=base.gradients + loss.gradients)
            of_head = of_head or loss.gradients
    backward = Backward(ledger, accumulates=bool(base.gradients))
    if form.has_head and not base.gradients:
        backward.give(_head_weight(model), of_head)
    backward.run(output.value.place.value, size)
    yield from (
        base._replace(
            stage="backward",
            path=moment.path,
            kept=moment.kept,
            gradients=base.gradients + moment.gradients,
            loss=SCALARS,
            temporaries=moment.temporaries,
        )
        for moment in backward.moments
    )


def _losses(model: Any, traced: TracedPass, form: LossForm, output: Tensor) -> Iterator[LossBytes]:
    """The moments of the loss that stands outside of the model."""
    width = traced.execution.width
    tokens = prod(output.shape[:-1])
    if form.has_head:
        tied = model.embedding.tied
        sizes = HeadSizes(tokens, model.vocab_size, output.shape[-1], width, tied)
        yield from chunked(sizes, form.chunks) if form.kind == "chunked" else fused(sizes)
    elif getattr(model, "head", None) is not None:
        yield from plain(HeadSizes(tokens, output.shape[-1], 0, width, tied=False))


def first_tensor(tree: Any) -> Tensor:
    """The first tensor of what a model returns."""
    tensors: list[Tensor] = []
    tree_map(tensors.append, Tensor, tree)
    return tensors[0]


def _head_weight(model: Any) -> str:
    """The path of the weight that the head multiplies by."""
    return "embedding.tokens.weight" if model.embedding.tied else "lm_head.weight"


def _without_head(model: Any) -> Model:
    """The model up to its hidden states; ArchError where its head is more than one matrix."""
    head = getattr(model, "head", None)
    if head is None or getattr(head, "kind", "linear") != "linear" or model.trains_on_targets:
        raise ArchError("only the loss of a linear head can be chunked or fused", "--loss plain")
    hidden: Model = substitute(model, {"head": None})
    return hidden
