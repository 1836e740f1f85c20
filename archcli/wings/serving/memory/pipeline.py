"""The stages of a pipeline: their layers and models, and the micro batches in flight.

L layers, p stages, m micro batches, v groups of layers in each stage. Narayanan et al. 2021,
arXiv:2104.04473 sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from archcli.modules import Model
from archcli.modules.models.stack import Group
from archcli.modules.spec.base import substitute
from archcli.wings.serving.memory.plan import Plan


class Stage(NamedTuple):
    """One stage of p: its groups of layers, in the order in which they run.

    The first has the embedding, the last the final norm and the head.
    """

    number: int
    groups: tuple[range, ...]
    is_first: bool = True
    is_last: bool = True

    def layers_of(self, numbers: range) -> int:
        """The number of a stage's layers among some layers."""
        return sum(len(_overlap(numbers, group)) for group in self.groups)


def stages_of(
    plan: Plan, n_layers: int, *, with_head: bool = False, in_ram: int = 0, split: Sequence[int] = ()
) -> tuple[Stage, ...]:
    """All p stages. Of layers that do not divide evenly the first groups have one more each.

    `with_head` counts the head as one of the layers, as llama.cpp does, which gives each of several devices
    layers in proportion to its free bytes: `split`, left out for equal devices. The first `in_ram` layers
    are on no device, and the first stage does not begin the model then.
    """
    groups = list(_cut(n_layers - in_ram, plan.pp * plan.virtual_stages))
    if with_head and 2 * plan.pp <= n_layers - in_ram + 1:  # else the head would be alone on the last device
        groups = list(_cut_with_head(n_layers - in_ram, split if len(split) == plan.pp else (1,) * plan.pp))
    groups = [range(group.start + in_ram, group.stop + in_ram) for group in groups]
    last = plan.pp - 1
    return tuple(
        Stage(i, tuple(groups[i :: plan.pp]), i == 0 and not in_ram, i == last) for i in range(plan.pp)
    )


def _cut_with_head(n_layers: int, split: Sequence[int]) -> Iterator[range]:
    # llama.cpp's load_tensors: layer i of L is on the first device up to which more than i / (L + 1) of all
    # bytes are free, the head on the last; a device with none of the layers is given one here
    before = [0, *accumulate(split)]
    least = [-(-part * (n_layers + 1) // before[-1]) for part in before[:-1]]
    ends = [min(max(end, i), n_layers - len(split) + i) for i, end in enumerate(least)]
    yield from map(range, ends, [*ends[1:], n_layers])


def _cut(n_layers: int, parts: int) -> Iterator[range]:
    start = 0
    for i in range(parts):
        end = start + n_layers // parts + (i < n_layers % parts)
        yield range(start, end)
        start = end


def _overlap(numbers: range, group: range) -> range:
    """The layers of a list that lie in a group."""
    if not numbers:
        return numbers
    step = numbers.step
    start = numbers.start + max(0, -(-(group.start - numbers.start) // step)) * step
    return range(start, min(group.stop, numbers.stop), step)


def in_flight(plan: Plan, stage: int) -> int:
    """The most micro batches whose activations a stage keeps at once, each of one group of its layers.

    min(p - i, m) for stage i in 1F1B; interleaved min(2 (p - i - 1) + (v - 1) p + 1, v m).
    """
    return max(sum(live) for live in live_groups(plan, stage))


def live_groups(plan: Plan, stage: int) -> Iterator[tuple[int, ...]]:
    """Micro batches kept for each group of layers of a stage, after each of its forwards."""
    p, v = plan.pp, plan.virtual_stages
    total = plan.micro_batches * v
    behind = p - stage - 1
    ahead = min(behind if v == 1 else 2 * behind + (v - 1) * p, total)
    live = [0] * v
    for step in range(total):
        if step > ahead:
            live[v - 1 - _group(step - ahead - 1, p, v)] -= 1
        live[_group(step, p, v)] += 1
        yield tuple(live)


def _group(step: int, p: int, v: int) -> int:
    """The group of layers of a stage's nth forward: p micro batches through each in turn."""
    return step % (p * v) // p


def stage_model(model: Any, stage: Stage) -> Model:
    """The layers of a stage, in one piece.

    The first has the embedding. In a later one the embedding's result stands for the hidden states that it
    receives; all but the last end with hidden states.
    """
    whole: Model = model
    if stage.is_first and stage.is_last:
        return whole
    groups = tuple(_cut_group(model.groups[i], *at) for i, *at in pieces(model, stage))
    changes: dict[str, Any] = {"groups": groups}
    if not stage.is_last:
        changes |= {"head": None, "final_norm": False}
        if "mtp" in model.fields:
            changes["mtp"] = None
    return substitute(whole, {name: value for name, value in changes.items() if name in whole.fields})


def pieces(model: Any, stage: Stage) -> tuple[tuple[int, int, int], ...]:
    """(group, place in its pattern of the first layer, number of layers) of each piece of a stage.

    Stages of equal pieces have equal layers: of 80 layers in a pattern of 8 on 8 devices the first and the
    fifth.
    """
    return tuple(piece for numbers in stage.groups for piece in _pieces(model, numbers))


def _pieces(model: Any, numbers: range) -> Iterator[tuple[int, int, int]]:
    start = 0
    for i, group in enumerate(model.groups):
        first, end = max(numbers.start, start), min(numbers.stop, start + group.n_layers)
        if first < end:
            yield i, (first - start) % len(group.blocks), end - first
        start += group.n_layers


def _cut_group(group: Group, turn: int, n_layers: int) -> Group:
    """A group cut to so many layers, its pattern turned to begin at a place."""
    return group.replace(n_layers=n_layers, pattern=group.pattern[turn:] + group.pattern[:turn])
