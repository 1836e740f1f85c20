"""Elements of weights, gradients and optimizer states on a device, and what FSDP gathers.

ZeRO, arXiv:1910.02054 section 5. Stages 1 and 2 cut one flat vector of all parameters into equal parts; stage
3 is FSDP2 (`fully_shard` of each layer and of the root), which cuts each tensor along its first axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Literal, NamedTuple

from archcli.arith import Number, Shape, prod, to_bytes
from archcli.graph import Row
from archcli.measure.passes import Pass
from archcli.measure.weights.stored_bytes import packed_parts, stored
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, layer_count
from archcli.modules.models.stack import stacks
from archcli.modules.spec.degrees import Degrees
from archcli.wings.serving.memory.pipeline import Stage, stages_of
from archcli.wings.serving.memory.plan import OF_GRADIENTS, OF_WEIGHTS, Plan

TABLE = "embedding.tokens"


class PlacedWeight(NamedTuple):
    """A parameter as torch holds it, and the layers with one each; none outside of layers.

    shape: of routed experts [E, out, in], one tensor for all of a layer. layers: their numbers.
    trained, routed: whether it has a gradient, and whether it is one of routed experts.
    first, last: outside of layers, the end of the model that has it; a tied table has both.
    part: stored bytes of an element over those of the model's dtype.
    """

    path: str
    shape: Shape
    layers: range
    trained: bool
    routed: bool
    first: bool = False
    last: bool = False
    part: Fraction | int = 1

    @property
    def held(self) -> int:
        """Its stored bytes as a number of elements of the dtype."""
        return ceil(self.elements * self.part)

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return int(prod(self.shape))

    def count(self, stage: Stage) -> int:
        """How many such weights a stage has."""
        if self.first or self.last:
            return int((self.first and stage.is_first) or (self.last and stage.is_last))
        return stage.layers_of(self.layers)

    def chunk(self, parts: int, rank: int = 0) -> Shape:
        """Its shape on one of the ranks that share its first axis: ceil(rows / parts), less on the last."""
        rows, *rest = self.shape or (1,)
        return (Degrees(parts, rank=rank).chunk(rows), *rest)


class Widths(NamedTuple):
    """Bytes of an element of a weight, and of its gradient."""

    weight: Number
    gradient: Number


StoredBits = tuple[tuple[PlacedWeight, Fraction], ...]
"""Weights, each with the bits of one layer's."""


def bytes_of_stage(stored_bits: StoredBits, stage: Stage) -> int:
    """Bytes of a stage's weights as they are stored; of layers in different formats the mean.

    Of all weights of a model with the bits of one layer's.
    """
    counts = ((weight.count(stage), of_one) for weight, of_one in stored_bits)
    return ceil(sum((count * of_one for count, of_one in counts if count), start=Fraction(0)) / 8)


def stored_weights(model: Model, rows: Iterable[Row], dtype: str) -> Iterator[tuple[PlacedWeight, Fraction]]:
    """A weight of each row, and the stored bits of all its weights in one layer."""
    weighted = [row for row in rows if row.weights]
    # all weights of a row are in the same layers
    placed = {weight.path.rpartition(".")[0]: weight for weight in placed_weights(model, weighted)}
    for row, of_row in stored(model, weighted, dtype):
        weight = placed.get(row.path)
        if weight is not None:  # none of a row that stores nothing
            yield weight, Fraction(of_row.value_bits + of_row.scale_bits, len(weight.layers) or 1)


class DeviceElements(NamedTuple):
    """Elements that one device holds; a quantized weight counts as fewer of the same bytes."""

    weights: int
    gradients: int
    states: int
    """Elements with optimizer states."""


def placed_weights(model: Model, rows: Iterable[Row], width: Number = 2) -> Iterator[PlacedWeight]:
    """The weights of a model, or of one rank's share of it, by the rows of a training pass.

    Layers are numbered through, the encoder's before the decoder's. What is not quantized has elements of
    `width` bytes.
    """
    layers, starts = LayerIndex(model), layer_starts(model)
    rows = tuple(rows)
    parts = packed_parts(model, rows, width)
    seen_layers = False
    for row in rows:
        start = next((at for prefix, at in starts.items() if row.path.startswith(prefix)), None)
        seen_layers = seen_layers or start is not None
        ends = (False, False)
        if start is None:
            tied = model.embedding.tied and row.path == TABLE
            ends = (not seen_layers, seen_layers or tied)
        numbers = range(0) if start is None else _shifted(layers.stored_span(row), start)
        experts = (row.experts.n_experts,) if row.experts else ()
        for name, shape in row.weights.items() if row.copies else ():
            path, trained = f"{row.path}.{name}", has_gradients(row)
            part = parts.get(row.path, 1) if name == "weight" else 1
            yield PlacedWeight(path, (*experts, *shape), numbers, trained, bool(experts), *ends, part)


def has_gradients(row: Row) -> bool:
    """Whether the row's own weights get gradients.

    Those of an indexer, whose choice has none, and a stored sinusoid table, as Whisper's, do not: the rows
    cost something forward and nothing backward. A bare parameter costs nothing in itself.
    """
    return row.trained and (not row.parts or any(part.backward for part in row.parts))


def _shifted(numbers: range, by: int) -> range:
    return range(numbers.start + by, numbers.stop + by, numbers.step)


def layer_starts(model: Model) -> dict[str, int]:
    """The number of each stack's first layer, by the prefix of its layers' paths."""
    starts, start = {}, 0
    for prefix, stack in stacks(model):
        starts[f"{prefix}layers."] = start
        start += sum(group.n_layers for group in stack.groups)
    return starts


def shares(plan: Plan, weights: Iterable[PlacedWeight], stage: Stage, rank: int = 0) -> DeviceElements:
    """The elements on one device of a stage; `rank` is that among the replicas of the same weights."""
    counted = [(weight, weight.count(stage)) for weight in weights]
    if plan.zero == OF_WEIGHTS:
        chunks = [(w, n * int(prod(w.chunk(_replicas(plan, w), rank)))) for w, n in counted]
        trained = sum(n for weight, n in chunks if weight.trained)
        return DeviceElements(sum(ceil(n * weight.part) for weight, n in chunks), trained, trained)
    whole = sum(n * weight.held for weight, n in counted)
    flat: dict[int, int] = {}
    for weight, n in counted:
        if weight.trained:
            parts = _replicas(plan, weight)
            flat[parts] = flat.get(parts, 0) + n * weight.elements
    part = sum(Degrees(parts, rank=rank % parts).chunk(n) for parts, n in flat.items())
    trained = sum(flat.values())
    gradients = part if plan.zero == OF_GRADIENTS else trained
    return DeviceElements(whole, gradients, part if plan.zero else trained)


def local_shapes(
    plan: Plan, weights: Iterable[PlacedWeight], stage: Stage, rank: int = 0
) -> Iterator[tuple[PlacedWeight, Shape, int]]:
    """(weight, its shape on a device under ZeRO 3, their number), as an optimizer gets them."""
    for weight in weights:
        n = weight.count(stage)
        if n:
            yield weight, weight.chunk(_replicas(plan, weight), rank), n


def _replicas(plan: Plan, weight: PlacedWeight) -> int:
    return plan.expert_replicas if weight.routed else plan.replicas


Place = Literal["before", "forward", "behind", "loss", "head", "last", "backward", "first", "end"]
"""Where a step is: the forward before, in and behind layers; the loss; the backward of the head, of the last
layer, of those before it, of the first, and of what is before them."""


class Gathered(NamedTuple):
    """Elements that FSDP2 gathers beside the shards, as counted by torch's `FSDPMemTracker`.

    root: all outside of layers, from the start of the forward to the end of the backward.
    layers: two layers in succession: forward one and the buffer that it came in, backward the next ahead.
    reduced: the flat copy of a layer's gradients that a reduce-scatter reads, padded to equal chunks.
    head, ends: trained, of the head and of all outside of layers, whose gradients are whole until the end.
    sums: trained, of a pipeline, whose gradients are whole until its last micro batch.
    """

    root: int
    layers: int
    reduced: int
    head: int = 0
    ends: int = 0
    sums: int = 0

    @property
    def elements(self) -> int:
        """Weights, and the gradients of a layer with their copy, while it runs backward."""
        return self.root + self.layers + 2 * self.reduced

    def bytes(self, widths: Widths, replicas: int) -> dict[Place, Number]:
        """Bytes by the place in a step; gradients are summed and sent in a width of their own.

        replicas: 0 where no rank's own part counts among the gradients.
        """
        weight, copied = widths.weight, self.reduced * widths.gradient
        root, sums = self.root * weight, self.sums * widths.gradient
        # a buffer of what was gathered is there until the next one is
        block = self.layers * weight // 2
        # of these the rank's own part counts among the gradients
        head, ends = (
            (whole - (-(-whole // replicas) if replicas else 0)) * weight for whole in (self.head, self.ends)
        )
        gradients = 0 if sums else self.reduced * weight
        places: dict[Place, Number] = {
            "before": 2 * root if not sums else root,
            "forward": root + 2 * block,
            "behind": root + block,
            "loss": root,
            "head": root + block + head,
            # the copy of a layer's gradients is there while the layer before it runs
            "last": root + 2 * block + head + gradients,
            "backward": root + 2 * block + head + gradients + copied,
            "first": root + block + head + gradients + copied,
            "end": root + ends + copied,
        }
        return {place: size + sums for place, size in places.items()}


def gathered(
    plan: Plan, weights: Iterable[PlacedWeight], stage: Stage, *, from_ram: bool = False
) -> Gathered:
    """The gathered elements of a stage under ZeRO 3; none below it, or on one device.

    With `from_ram` weights come from RAM, those of one device too.

    A stage of a pipeline has all its weights whole through the step, and sums whole gradients up to the last
    micro batch, as torchtitan does: each micro batch would gather and scatter them anew.
    """
    if plan.zero != OF_WEIGHTS and not from_ram:
        return Gathered(0, 0, 0)
    fetched = list(weights)
    weights = [weight for weight in fetched if _replicas(plan, weight) > 1]
    fetched = fetched if from_ram else weights
    ends = [weight for weight in fetched if weight.count(stage) and (weight.first or weight.last)]
    root, most, padded = sum(weight.held for weight in ends), 0, 0
    for group in stage.groups:
        sizes = [_of_layer(fetched, number) for number in group]
        pairs = zip(sizes, [*sizes[1:], 0], strict=True)
        most = max(most, *(a + b for a, b in pairs)) if sizes else most
        padded = max([padded, *(_padded(plan, weights, number) for number in group)])
    if plan.pp > 1:
        held = [(weight, weight.count(stage)) for weight in weights]
        sums = sum(n * weight.elements for weight, n in held if weight.trained)
        return Gathered(sum(n * weight.held for weight, n in held), 0, padded, sums=sums)
    head, of_ends = (
        sum(weight.elements for weight in some if weight.trained)
        for some in ([weight for weight in ends if weight.last], ends)
    )
    return Gathered(root, most, padded, head, of_ends)


def _of_layer(weights: Iterable[PlacedWeight], number: int) -> int:
    return sum(weight.held for weight in weights if number in weight.layers)


def _padded(plan: Plan, weights: Iterable[PlacedWeight], number: int) -> int:
    """Elements of a layer's trained weights, each padded to equal chunks."""
    total: Number = 0
    for weight in weights:
        if weight.trained and number in weight.layers:
            parts = _replicas(plan, weight)
            total = total + parts * prod(weight.chunk(parts))
    return int(total)


def sharded_memory(
    memory: dict[str, int], share: Model, counted: Pass, replicas: int, dtype: str
) -> dict[str, int]:
    """The memory of a training pass sharded by FSDP2 over replicas, from that of the whole pass.

    Gathered weights count as activations: the root, two layers, and the gradients of one with their copy.
    """
    if share.quantization is not None:  # a pass that runs has its weights in the dtype
        share = share.replace(quantization=None)
    plan, weights = Plan(dp=replicas, zero=3), tuple(placed_weights(share, counted.rows))
    stage = stages_of(plan, layer_count(share))[0]
    held, others = shares(plan, weights, stage), gathered(plan, weights, stage)
    parts = {
        **{part: size for part, size in memory.items() if part != "needed_bytes"},
        "weights_bytes": int(to_bytes(held.weights, dtype)),
        "gradients_bytes": int(to_bytes(held.gradients, dtype)),
        "activations_bytes": memory["activations_bytes"] + int(to_bytes(others.elements, dtype)),
    }
    return {**parts, "needed_bytes": sum(parts.values())}
