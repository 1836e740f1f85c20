"""Collectives of replicas: gradients that are summed, and with ZeRO 3 weights that are gathered.

DDP sums gradients once a step, in buckets of 25 MiB (arXiv:2006.15704 section 3.2); ZeRO 1 and 2 scatter them
and gather the new weights (arXiv:1910.02054 section 7). FSDP2 gathers each layer forward and backward, what
is outside of layers once, and scatters gradients, for each micro batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from archcli.arith import Number, part_of, prod
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.shares import OF_GRADIENTS, OF_WEIGHTS, PlacedWeight
from archcli.measure.predict.communication.collective import Collective, Cover
from archcli.measure.predict.communication.groups import GroupOfRanks, end_group, replica_group

BUCKET_BYTES = 25 * 2**20
"""Gradients of an all-reduce of DDP: torch's `bucket_cap_mb`."""
ONCE_A_STEP = 1


class Unit(NamedTuple):
    """Weights that FSDP gathers at once: those of a layer, or all outside of layers, and how often.

    `whole` and `trained` are elements, each tensor padded to equal chunks of its first axis.
    """

    times: int
    whole: int
    trained: int
    is_root: bool


def of_replicas(
    weights: Sequence[PlacedWeight], plan: Plan, stage: Stage, width: Number, micro_batches: int
) -> Iterator[Collective]:
    """The collectives of a step of one rank of a stage, with so many micro batches."""
    for routed in (False, True):
        group = replica_group(plan, routed=routed)
        held = [weight for weight in weights if weight.routed is routed and weight.count(stage)]
        if group.ranks == 1 or not held:
            continue
        if plan.zero == OF_WEIGHTS:
            yield from _sharded(held, group, stage, width, micro_batches)
        else:
            often = micro_batches if plan.zero == OF_GRADIENTS else ONCE_A_STEP
            yield from _summed(held, group, stage, width, often, plan.zero)
    if plan.pp > 1 and (stage.is_first or stage.is_last):
        tied = sum(weight.elements for weight in weights if weight.first and weight.last and weight.trained)
        if tied:
            ends = end_group(plan)
            yield Collective("all_reduce", "gradients", ends, tied * width, ONCE_A_STEP, "step")


def _summed(
    weights: list[PlacedWeight], group: GroupOfRanks, stage: Stage, width: Number, often: int, zero: int
) -> Iterator[Collective]:
    """Gradients added up, `often` a step; with ZeRO scattered, and the new weights gathered."""
    trained = sum(weight.count(stage) * weight.elements for weight in weights if weight.trained)
    if not trained:
        return
    n = group.ranks
    sent = part_of(trained * width, n - 1, n)
    if not zero:
        buckets = -(-int(trained * width) // BUCKET_BYTES)
        yield Collective("all_reduce", "gradients", group, 2 * sent, buckets, "backward", "backward")
        return
    padded = -(-trained // n) * (n - 1) * width
    yield Collective("reduce_scatter", "gradients", group, often * padded, often, "backward", "backward")
    yield Collective("all_gather", "weights", group, padded, ONCE_A_STEP, "step")


def _sharded(
    weights: list[PlacedWeight], group: GroupOfRanks, stage: Stage, width: Number, micro_batches: int
) -> Iterator[Collective]:
    """Weights gathered forward and backward, gradients scattered, of each layer and of the root.

    The root is gathered before anything runs, stays whole, and is scattered when nothing is left to run.
    """
    for unit in units_of(weights, stage, group.ranks):
        times = unit.times * micro_batches
        whole, trained = (
            times * elements // group.ranks * (group.ranks - 1) * width
            for elements in (unit.whole, unit.trained)
        )
        ahead: Cover = "" if unit.is_root else "forward"
        back: Cover = "" if unit.is_root else "backward"
        yield Collective("all_gather", "weights", group, whole, times, "forward", ahead)
        if not unit.is_root:
            yield Collective("all_gather", "weights", group, whole, times, "backward", back)
        if trained:
            yield Collective("reduce_scatter", "gradients", group, trained, times, "backward", back)


def units_of(weights: Sequence[PlacedWeight], stage: Stage, ranks: int) -> Iterator[Unit]:
    """What a stage gathers at once among so many ranks: the root, and its layers by their sizes."""
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
