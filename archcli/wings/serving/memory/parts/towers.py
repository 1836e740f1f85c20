"""The memory of towers beside a language model: weights, passes over images and sounds, outputs.

Towers run before the language model, one medium after the other, on the first stage's devices. Their output
stays until the language model has read it. Imported only for models with towers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from archcli.arith import Number, prod
from archcli.graph import Tensor, tree_map
from archcli.measure.passes import shape_pass, tower_rows
from archcli.measure.weights.stored_bytes import tower_bytes
from archcli.modules import Model, Tower
from archcli.modules.spec.request import Medium, Request
from archcli.wings.serving.memory.pipeline import in_flight
from archcli.wings.serving.memory.plan import ONE_DEVICE, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import MemoryMoment, TracedModel, TracedPass, trace_memory

SEPARATE = 3
"""Layers of a group that a trace of memory visits: the first, one in the middle, the last."""


class TowerPass(NamedTuple):
    """The pass of a tower over one medium of each sequence.

    features: bytes of its output, which the language model reads.
    states: bytes of states after layers that the pass holds (taps) and the trace misses, as it visits like
    layers once.
    """

    tower: Tower
    traced: TracedPass
    features: Number
    states: Number

    @property
    def outputs(self) -> list[tuple[Any, Number]]:
        """The outputs, projected vectors and taps: the operation behind each, and its bytes."""
        values = [x.value for x in _outputs(self.traced)]
        return [(x.place.value, prod(x.shape) * x.place.width) for x in values]

    @property
    def kept(self) -> Number:
        """Bytes that the pass keeps for its backward."""
        return self.traced.ledger.kept


class TrainedTowers(NamedTuple):
    """Bytes that training adds for towers: gradients, optimizer states, temporaries of the update."""

    gradients: Number
    states: Number
    temporaries: Number


NOTHING = TrainedTowers(0, 0, 0)


def with_towers(
    moments: Sequence[MemoryMoment], known: TracedModel, settings: MemorySettings, plan: Plan = ONE_DEVICE
) -> tuple[MemoryMoment, ...]:
    """The moments of a device that also holds the model's towers and runs them before the language model.

    `moments` are those of the language model on the first stage of a plan, `settings` those of a replica.
    """
    weights = sum(tower_bytes(known.model, settings.dtype).values())
    if settings.phase == "train":
        return tuple(_training(moments, known, settings, plan, weights))
    return tuple(_inference(moments, tower_passes(known, settings), settings, weights))


def tower_passes(known: TracedModel, settings: MemorySettings) -> tuple[TowerPass, ...]:
    """The passes of the towers over the media of all sequences that are read at once; none in decoding."""
    if settings.phase == "decode":
        return ()
    return known.once(("towers", settings), lambda: tuple(_passes(known.model, settings)))


def _passes(model: Model, settings: MemorySettings) -> Iterator[TowerPass]:
    trains = settings.phase == "train" and model.lora is None
    request = Request("train" if trains else "forward", 1 if settings.served else settings.batch_size)
    execution, rule = settings.execution()._replace(records=trains), None
    if trains:
        from archcli.wings.serving.memory.training.losses import recomputed  # of training alone

        rule = recomputed(settings.recompute)
    for medium in settings.media:
        tower = model.tower_of(medium)
        for reading in tower.readings(request, medium):
            traced = trace_memory(tower.sized(medium), reading, execution, rule)
            yield TowerPass(tower, traced, *_handed(tower, medium, traced, request.batch_size))


def _outputs(traced: TracedPass) -> list[Tensor]:
    tensors: list[Tensor] = []
    tree_map(tensors.append, Tensor, traced.output)
    return tensors


def _handed(tower: Tower, medium: Medium, traced: TracedPass, batch_size: Number) -> tuple[Number, Number]:
    """Bytes that wait for the language model, and of the states that the trace does not see."""
    output = _outputs(traced)[0].value
    shape, width = output.shape, output.place.width
    size = prod(shape) * width
    # tiles are joined to one image, with a newline vector after each row: another number of tokens
    if tower.newline:
        size = batch_size * tower.tokens_of(medium) * shape[-1] * width
    encoder: Any = tower.model  # a TowerModel is a Model
    state = traced.request.batch_size * traced.request.seq_len * encoder.d_model * width
    return size * (1 + len(tower.taps)), state * unseen_states(tower)


def unseen_states(tower: Tower) -> int:
    """How many tapped states a trace misses: those after the like layers in the middle."""
    encoder: Any = tower.encoder
    layers: int = encoder.groups[0].n_layers if encoder.groups else 0
    if layers <= SEPARATE:
        return 0
    if len(encoder.groups) == 1:
        return len([behind for behind in tower.behind if 1 < behind < layers - 1])
    # with further groups of layers one of them is seen: the peak is after the last layer's input was freed
    return max(len({behind for behind in tower.behind if 1 < behind < layers}) - 1, 0)


def _inference(
    moments: Sequence[MemoryMoment], passes: Sequence[TowerPass], settings: MemorySettings, weights: Number
) -> Iterator[MemoryMoment]:
    """The moments of the towers, then those of the language model with the towers' output."""
    first = moments[0]._replace(weights=moments[0].weights + weights)
    # moments of a chunked prefill are of its last chunk, with a cache that is empty while towers run; an
    # engine allocates its cache at the start
    cache = first.cache if settings.served or settings.chunk is None or settings.past else 0
    waiting: Number = 0
    for it in passes:
        for alive in it.traced.ledger.moments:
            temporaries = waiting + it.states + alive.temporaries
            part, path = it.tower.part, alive.path
            yield first._replace(stage=part, path=path, temporaries=temporaries, cache=cache)
        waiting = waiting + it.features
    for moment in moments:
        yield moment._replace(weights=moment.weights + weights, temporaries=moment.temporaries + waiting)


def _training(
    moments: Sequence[MemoryMoment],
    known: TracedModel,
    settings: MemorySettings,
    plan: Plan,
    weights: Number,
) -> Iterator[MemoryMoment]:
    """Forward of the towers, the step of the language model, backward of the towers, the update of all."""
    passes, trained = tower_passes(known, settings), _trained(known, settings)
    *step, update = (
        moment._replace(weights=moment.weights + weights, optimizer=moment.optimizer + trained.states)
        for moment in moments
    )
    accumulated = trained.gradients if plan.sums_gradients(settings) else 0
    # micro batches in flight: their backward has yet to come back from later stages
    earlier = -(-in_flight(plan, 0) // plan.virtual_stages) - 1
    kept_of_towers = sum(it.kept for it in passes)
    kept_earlier: Number = earlier * kept_of_towers
    begin = step[0]._replace(gradients=step[0].gradients + accumulated, kept=step[0].kept + kept_earlier)
    yield from _forward(begin, passes)
    kept, waiting = kept_earlier + kept_of_towers, sum(it.features for it in passes)
    for moment in step:
        # the output of the towers is freed when the forward of the language model returns
        more = waiting if moment.stage == "forward" else 0
        yield moment._replace(
            gradients=moment.gradients + accumulated,
            kept=moment.kept + kept,
            temporaries=moment.temporaries + more,
        )
    behind = step[-1]._replace(gradients=update.gradients, kept=kept_earlier)
    yield from _backward(behind, passes, accumulated)
    yield update._replace(
        gradients=update.gradients + trained.gradients,
        temporaries=update.temporaries + trained.temporaries,
    )


def _forward(begin: MemoryMoment, passes: Sequence[TowerPass]) -> Iterator[MemoryMoment]:
    """The forward of the towers, one medium after the other."""
    kept, waiting = begin.kept, 0
    for it in passes:
        for alive in it.traced.ledger.moments:
            part, temporaries = it.tower.part, waiting + alive.temporaries
            yield begin._replace(stage=part, path=alive.path, kept=kept + alive.kept, temporaries=temporaries)
        kept, waiting = kept + it.kept, waiting + it.features


def _backward(last: MemoryMoment, passes: Sequence[TowerPass], accumulated: Number) -> Iterator[MemoryMoment]:
    """The backward of the towers, after that of the language model, the last medium first."""
    from archcli.wings.serving.memory.training.backward import Backward  # of training alone

    gradients, kept = accumulated, sum(it.kept for it in passes)
    waiting = sum(it.features for it in passes)
    seen: set[int] = set()
    for it in reversed(passes):
        if not it.traced.execution.records:
            return
        kept, waiting = kept - it.kept, waiting - it.features
        # a second medium's gradients are added to those of the first
        backward = Backward(it.traced.ledger, accumulates=bool(accumulated) or id(it.tower) in seen)
        backward.run(*it.outputs)
        seen.add(id(it.tower))
        for moment in backward.moments:
            yield last._replace(
                stage=f"{it.tower.part} backward",
                path=moment.path,
                gradients=last.gradients + gradients + moment.gradients,
                kept=last.kept + kept + moment.kept,
                temporaries=waiting + moment.temporaries,
            )
        gradients = gradients + backward.gradients


def _trained(known: TracedModel, settings: MemorySettings) -> TrainedTowers:
    """Bytes that training adds for the towers that read a medium: others get no gradients."""
    model = known.model
    towers = {id(tower): tower for tower in map(model.tower_of, settings.media)}
    if not towers or model.lora is not None:
        return NOTHING
    # of training alone
    from archcli.wings.serving.memory.training.optimizers import optimizer, trained_tensors

    widths = settings.width, settings.gradient_width
    rows = known.once("trained rows", lambda: shape_pass(model, settings.request(model)).rows)
    of_towers = [
        tensor
        for tower in towers.values()
        # rows with costs: a weight that nothing reads gets no gradient, which the backward's costs tell
        for tensor in trained_tensors(tower_rows(tower, tower.usual), *widths)
    ]
    rule, of_text = optimizer(settings.optimizer, settings.backend), [*trained_tensors(rows, *widths)]
    both, alone = rule.state([*of_text, *of_towers]), rule.state(of_text)
    gradients = sum(tensor.elements * tensor.count for tensor in of_towers) * settings.gradient_width
    return TrainedTowers(gradients, both.device - alone.device, both.temporaries - alone.temporaries)
