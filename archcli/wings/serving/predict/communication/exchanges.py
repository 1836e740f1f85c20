"""Collectives of each kind of parallelism: context, data, tensor, expert, pipeline.

Context parallelism: keys, values and the gradients of both go around a ring (ring attention, arXiv:2310.01889
section 3). Each of c ranks has T / c tokens. Their keys and values visit all other ranks, once in the forward
and once in the backward, there with their gradients, which take one more step home.

Data parallelism: gradients are summed, and with ZeRO 3 weights are gathered. DDP sums gradients once a step,
in buckets of 25 MiB (arXiv:2006.15704 section 3.2); ZeRO 1 and 2 scatter them and gather the new weights
(arXiv:1910.02054 section 7). For each micro batch, FSDP2 gathers each layer forward and backward, all weights
outside of layers once, and scatters gradients; with a pipeline all of this once a step, as torchtitan does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from archcli.arith import Number, part_of, prod
from archcli.graph import Row
from archcli.measure.passes import SCORES
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import OF_GRADIENTS, OF_WEIGHTS, Plan
from archcli.wings.serving.memory.shares import PlacedWeight, Widths
from archcli.wings.serving.predict.communication.collective import (
    Collective,
    Cover,
    GroupOfRanks,
    Moment,
    context_group,
    end_group,
    expert_group,
    replica_group,
    stage_group,
    tensor_group,
)


def of_context(
    rows: Iterable[tuple[Row, Number]], plan: Plan, width: Number, repeated: frozenset[str]
) -> Iterator[Collective]:
    """The sends of one rank's keys and values: c - 1 forward, and 2 c - 1 backward, for each row.

    Keys that a window or mask hides are sent too. Attention is computed during the sends.
    """
    if plan.cp == 1:
        return
    group, around = context_group(plan), plan.cp - 1
    for row, times in rows:
        if row.op.component != SCORES:
            continue
        _, keys, values, *_ = row.inputs
        elements = times * (prod(keys) + prod(values))
        ahead = around * (2 if row.path in repeated else 1)
        # backward: keys and values once around, their gradients too, and these one step further, home
        turns: dict[Moment, int] = {"forward": ahead, "backward": 2 * around + 1}
        for stage, steps in turns.items():
            sent = steps * elements * width
            yield Collective("send", "context", group, sent, steps * times, stage, "attention")


def of_rows(
    rows: Iterable[tuple[Row, Number]],
    plan: Plan,
    width: Number,
    repeated: frozenset[str] | None,
    multiplied: Number,
) -> Iterator[Collective]:
    """The collectives of (row, times): those of tensor, sequence and expert parallelism.

    width, multiplied: bytes of an element, and of one that experts multiply.
    repeated: paths of rows that the backward runs again; None without a backward.
    No compute hides these collectives: the next operation reads the result.
    """
    for row, times in rows:
        op: Any = row.op
        if not op.exchanges:
            continue
        sent, back = op.sent(*row.inputs), op.sent_back(*row.inputs)
        ahead = times * (2 if repeated is not None and row.path in repeated else 1)
        if op.collective and sent:
            sent_width = multiplied if op.collective == "all_to_all" and op.enters else width
            yield _of(op, op.collective, plan, ahead, ahead * sent * sent_width)
        if repeated is not None and op.collective_back and back:
            yield _of(op, op.collective_back, plan, times, times * back * width, "backward")


def _of(op: Any, name: Any, plan: Plan, times: Number, sent: Number, stage: Any = "forward") -> Collective:
    routed = name == "all_to_all"
    # all-to-all sends tokens to experts. Others add up products of split matrices (arXiv:1909.08053
    # section 3), or gather and scatter tokens of sequence parallelism (arXiv:2205.05198 section 4.2)
    group = expert_group(plan) if routed else tensor_group(plan, op)
    if not routed:
        return Collective(name, "tensor", group, sent, times, stage)
    return Collective(name, "experts", group, sent, times, stage, visits=float(op.visits))


BUCKET_BYTES = 25 * 2**20
"""Bytes of gradients in one all-reduce of DDP: torch's `bucket_cap_mb`."""
ONCE_A_STEP = 1


class Unit(NamedTuple):
    """Weights that FSDP gathers at once: those of a layer, or all outside of layers (the root).

    times: layers of the same sizes.
    whole, trained: elements of all and of trained weights, each tensor padded to equal chunks of axis 0.
    is_root: outside of layers.
    """

    times: int
    whole: int
    trained: int
    is_root: bool


def of_replicas(
    weights: Sequence[PlacedWeight], plan: Plan, stage: Stage, widths: Widths, micro_batches: int
) -> Iterator[Collective]:
    """The collectives of a step of one rank of a stage, with so many micro batches."""
    for routed in (False, True):
        group = replica_group(plan, routed=routed)
        held = [weight for weight in weights if weight.routed is routed and weight.count(stage)]
        if group.ranks == 1 or not held:
            continue
        if plan.zero == OF_WEIGHTS:
            yield from _sharded(held, group, stage, widths, micro_batches, in_turn=plan.pp == 1)
        else:
            # ZeRO 2 keeps only a rank's part of the gradients, so that each micro batch must scatter them
            often = micro_batches if plan.zero == OF_GRADIENTS else ONCE_A_STEP
            yield from _summed(held, group, stage, widths, often, plan.zero)
    if plan.pp > 1 and (stage.is_first or stage.is_last):
        # first and last stage both hold a tied embedding, each with its part of the gradient: sum them
        tied = sum(weight.elements for weight in weights if weight.first and weight.last and weight.trained)
        if tied:
            ends = end_group(plan)
            yield Collective("all_reduce", "gradients", ends, tied * widths.gradient, ONCE_A_STEP, "step")


def _summed(
    weights: list[PlacedWeight], group: GroupOfRanks, stage: Stage, widths: Widths, often: int, zero: int
) -> Iterator[Collective]:
    """Gradients reduced `often` times a step; with ZeRO scattered, and the new weights gathered."""
    trained = sum(weight.count(stage) * weight.elements for weight in weights if weight.trained)
    if not trained:
        return
    n = group.ranks
    sent = part_of(trained * widths.gradient, n - 1, n)
    if not zero:
        buckets = -(-int(trained * widths.gradient) // BUCKET_BYTES)
        # twice: over a ring an all-reduce is a scatter and a gather
        yield Collective("all_reduce", "gradients", group, 2 * sent, buckets, "backward", "backward")
        return
    # padded as a whole: DeepSpeed's ZeRO flattens weights into one buffer, FSDP2 pads each tensor
    padded = -(-trained // n) * (n - 1)
    scattered = often * padded * widths.gradient
    yield Collective("reduce_scatter", "gradients", group, scattered, often, "backward", "backward")
    yield Collective("all_gather", "weights", group, padded * widths.weight, ONCE_A_STEP, "step")


def _sharded(
    weights: list[PlacedWeight],
    group: GroupOfRanks,
    stage: Stage,
    widths: Widths,
    micro_batches: int,
    *,
    in_turn: bool,
) -> Iterator[Collective]:
    """Weights gathered forward and backward, gradients scattered, of each layer and of the root.

    The root is gathered before the forward, stays gathered, and is scattered after the backward. Without
    `in_turn`, in a stage of a pipeline, layers do the same: once a step.
    """
    for unit in units_of(weights, stage, group.ranks):
        times = unit.times * (micro_batches if in_turn else ONCE_A_STEP)
        whole, trained = (
            times * elements // group.ranks * (group.ranks - 1) * width
            for elements, width in zip((unit.whole, unit.trained), widths, strict=True)
        )
        ahead: Cover = "" if unit.is_root else "forward"
        back: Cover = "" if unit.is_root else "backward"
        yield Collective("all_gather", "weights", group, whole, times, "forward", ahead)
        if in_turn and not unit.is_root:
            yield Collective("all_gather", "weights", group, whole, times, "backward", back)
        if trained:
            yield Collective("reduce_scatter", "gradients", group, trained, times, "backward", back)


def units_of(weights: Sequence[PlacedWeight], stage: Stage, ranks: int) -> Iterator[Unit]:
    """The units that a stage gathers among `ranks` ranks: the root, and its layers by their sizes."""
    root = [weight for weight in weights if weight.first or weight.last]
    if root:
        yield Unit(1, *_padded(root, ranks), is_root=True)
    layers: dict[range, list[PlacedWeight]] = {}
    for weight in weights:
        if weight not in root:
            layers.setdefault(weight.layers, []).append(weight)
    padded = {numbers: _padded(held, ranks) for numbers, held in layers.items()}
    sizes: Counter[tuple[int, int]] = Counter()
    for number in chain.from_iterable(stage.groups):
        parts = [size for numbers, size in padded.items() if number in numbers]
        sizes[sum(whole for whole, _ in parts), sum(trained for _, trained in parts)] += 1
    yield from (Unit(count, *size, is_root=False) for size, count in sizes.items() if size[0])


def _padded(weights: Sequence[PlacedWeight], ranks: int) -> tuple[int, int]:
    """(elements, elements that are trained), each tensor padded to equal chunks."""
    sizes = [(ranks * int(prod(weight.chunk(ranks))), weight.trained) for weight in weights]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained)


def of_stages(
    plan: Plan, stage: Stage, hidden: Number, width: Number, micro_batches: int
) -> Iterator[Collective]:
    """The sends of a stage: hidden states onward and their gradients back, of each micro batch.

    hidden: B T d elements at a boundary; a rank has 1 / cp of them, with sequence parallelism 1 / tp of that.
    A stage sends after each of its v groups of layers, except after the last layer of the model. The next
    micro batch is computed during the send.
    """
    if plan.pp == 1:
        return
    share = part_of(hidden * width, 1, plan.cp * (plan.tp if plan.sp else 1))
    onward = micro_batches * (plan.virtual_stages - int(stage.is_last))
    back = micro_batches * (plan.virtual_stages - int(stage.is_first))
    group = stage_group(plan)
    if onward:
        yield Collective("send", "stages", group, onward * share, onward, "forward", "compute")
    if back:
        yield Collective("send", "stages", group, back * share, back, "backward", "compute")


def of_batch_onward(plan: Plan, stage: Stage, hidden: Number, width: Number) -> Iterator[Collective]:
    """The send of a batch's hidden states to the waiting next stage of inference.

    All ranks of a tensor-parallel group have the same hidden states: each sends a part, and the ranks of the
    next stage gather all (as vLLM's pipeline does).
    """
    if plan.pp == 1 or stage.is_last:
        return
    ranks = plan.tp // plan.dp_attention
    yield Collective("send", "stages", stage_group(plan), part_of(hidden * width, 1, ranks), 1)
    if ranks > 1:
        others = part_of(hidden * width, ranks - 1, ranks)
        yield Collective("all_gather", "stages", GroupOfRanks(ranks), others, 1)


def bubble_share(plan: Plan) -> float:
    """Waiting time of a pipeline stage as a share of its computing time: (p - 1) / (m v).

    arXiv:2104.04473 sections 2.2.1 and 2.2.2; p stages, m micro batches, v groups of layers in each stage.
    """
    return (plan.pp - 1) / (plan.micro_batches * plan.virtual_stages)
