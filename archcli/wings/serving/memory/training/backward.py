"""The backward of a traced pass: bytes alive while gradients flow from the loss to the first layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from archcli.arith import Number, is_whole, maximum
from archcli.wings.serving.launches.memory.storage import Allocation, Ledger, Step, Value

Key = tuple[int | str, int]
"""A tensor: the operation or weight that made it, and which output."""


class BackwardMoment(NamedTuple):
    """Bytes alive while an operation's backward runs, by purpose."""

    path: str
    kept: Number
    gradients: Number
    temporaries: Number


@dataclass(slots=True, eq=False)
class Buffer:
    """The gradient of an activation: its bytes, and how many tensors share it."""

    size: Number
    holders: int = 1


@dataclass(slots=True, eq=False)
class Backward:
    """Runs the steps of a forward in reverse, operation by operation, as torch's engine does.

    With `accumulates` every weight has a gradient of earlier micro batches, to which new ones are added. Two
    gradients of an activation are added in place, if no other tensor shares the first. A weight keeps its
    first gradient; the sum with a second one takes a third tensor.
    """

    ledger: Ledger
    accumulates: bool = False
    moments: list[BackwardMoment] = field(default_factory=list)
    kept: Number = 0
    """Bytes of the forward that are still kept."""
    gradients: Number = 0
    """Bytes of the gradients that weights keep after the backward."""
    flowing: Number = 0
    """Bytes of gradients of activations."""
    buffers: dict[Key, Buffer] = field(default_factory=dict)
    """Gradients of activations, by their tensor."""
    of_weights: set[int | str] = field(default_factory=set)
    """Weights that have their gradient."""
    uses: Counter[str] = field(default_factory=Counter)
    """How many more gradients each weight will get."""
    sums: dict[str, Buffer] = field(default_factory=dict)
    """The sum so far of a weight's gradients, where it accumulates."""
    first_use: dict[int, int] = field(default_factory=dict)
    """The first step of the forward that keeps a storage, by the storage."""
    pending: list[Buffer] = field(default_factory=list)
    """Gradients to free at the end of the step."""

    def run(self, *outputs: tuple[Value, Number], held: bool = False) -> None:
        """Run from the outputs, with gradients of these sizes, back to the first operation.

        `held`: the caller holds the gradients of the outputs to the end.
        """
        steps = self.ledger.steps
        self.kept = self.ledger.held
        self.first_use = _first_uses(self.ledger)
        self.uses = _uses(self.ledger)
        for output, size in outputs:
            self.buffers[output.maker, output.output] = Buffer(size, 2 if held else 1)
            self.flowing = self.flowing + size
        for block in _blocks(steps):
            self._block(block)

    def give(self, weight: str, size: Number) -> None:
        """Add a weight's gradient before the first step: the head's, from a loss that runs the head."""
        if not self.accumulates:
            self.of_weights.add(weight)
            self.gradients = self.gradients + size
        elif _uses(self.ledger)[weight]:
            self.sums[weight] = self._buffer(size)

    def _block(self, block: list[int]) -> None:
        """Run the steps of repeated layers once, and note moments of the first and the last layer."""
        times = self.ledger.steps[block[0]].row.times
        before = (self.kept, self.gradients, self.flowing, len(self.moments))
        for region, numbers in groupby(block, lambda number: self.ledger.steps[number].region):
            self._region(region, list(numbers))
        if is_whole(times) and times == 1:
            return
        # in between, bytes change by the same amount with each layer: a peak is in the first or the last
        kept, gradients = (self.kept - before[0]) * (times - 1), (self.gradients - before[1]) * (times - 1)
        last = [
            moment._replace(kept=moment.kept + kept, gradients=moment.gradients + gradients)
            for moment in self.moments[before[3] :]
        ]
        self.moments += last
        self.kept, self.gradients = self.kept + kept, self.gradients + gradients

    def _region(self, region: str | None, numbers: list[int]) -> None:
        """Recompute the steps of a region together, and then run their backward."""
        if region is None:
            for number in numbers:
                self._step(number, None)
            return
        entries = self.ledger.entries.get(region, {})
        fetched = self._fetched(entries.values(), *(self.ledger.steps[number].kept for number in numbers))
        self.kept = self.kept + fetched
        recomputed = self._recompute(numbers)
        for number in numbers:
            self._step(number, recomputed)
        for key, allocation in entries.items():
            if self.first_use.get(key) == numbers[-1]:
                self.kept = self.kept - allocation.size
        self.kept = self.kept - fetched

    def _fetched(self, *kept: Iterable[Allocation]) -> Number:
        """Bytes that come back from RAM for an operation, or for a region that is recomputed."""
        if not self.ledger.offloads:
            return 0
        there = {id(allocation): allocation.size for part in kept for allocation in part}
        return sum(size for key, size in there.items() if key in self.ledger.saved)

    def _recompute(self, numbers: list[int]) -> dict[int, Allocation]:
        """Run the steps forward again, which makes the tensors that their backward needs.

        torch stops once it has the last of them: moments after that are dropped.
        """
        recomputed: dict[int, Allocation] = {}
        before, last = self.kept, len(self.moments) + 1
        for number in reversed(numbers):
            step = self.ledger.steps[number]
            fresh = {
                id(a): a for a in step.kept if id(a) not in self.ledger.saved and id(a) not in recomputed
            }
            recomputed.update(fresh)
            self.kept = self.kept + sum(a.size for a in fresh.values())
            outputs = sum(value.size for value in step.outputs)
            self._note(step, maximum(step.alive_again - (self.kept - before), outputs))
            if fresh:
                last = len(self.moments)
        del self.moments[last:]
        return recomputed

    def _step(self, number: int, recomputed: Mapping[int, Allocation] | None) -> None:
        """Run the backward of one operation: make its gradients, free the tensors that it kept and read.

        Then add up two gradients of one tensor. A recomputed tensor is freed as soon as it is read, before
        the gradient of a bias is summed up.
        """
        step = self.ledger.steps[number]
        fetched = self._fetched(step.kept) if recomputed is None else 0
        self.kept = self.kept + fetched
        read = [self.buffers.pop((value.maker, value.output), None) for value in step.outputs]
        gradients = [buffer for buffer in read if buffer is not None]
        sums = list(self._gradients(step, gradients)) if gradients else []
        later = 0 if recomputed is None else step.summed_bias
        if step.workspace.lets_go:
            self._drop(gradients)
        if gradients:
            self._note(step, step.workspace.backward - later)
        self._let_go(number, self.ledger.saved if recomputed is None else recomputed)
        self.kept = self.kept - fetched
        if gradients and recomputed is not None:
            self._note(step, 0)
        if not step.workspace.lets_go:
            self._drop(gradients)
        for size in sums:
            self._note(step, size)
        self._drop(self.pending)
        self.pending = []

    def _let_go(self, number: int, alive: Mapping[int, object]) -> None:
        """Free the tensors kept by a step that no earlier step of the forward keeps."""
        for allocation in self.ledger.steps[number].kept:
            if id(allocation) in alive and self.first_use.get(id(allocation)) == number:
                self.kept = self.kept - allocation.size

    def _gradients(self, step: Step, gradients: list[Buffer]) -> Iterator[Number]:
        """Make the gradients of weights and inputs; yields the size of each sum that takes a new tensor."""
        if _has_own(step):
            yield from self._to_weight(f"{step.row.path}.weight", step.weight_gradients)
        for value in step.inputs:
            if value is None:
                continue
            if isinstance(value.maker, str):
                yield from self._to_weight(value.maker, value.size)
                continue
            passed = step.hands_on and len(gradients) == 1 and gradients[0].size == value.size
            self._to_input((value.maker, value.output), gradients[0] if passed else None, value.size)

    def _to_weight(self, weight: str, size: Number) -> Iterator[Number]:
        """Keep the first gradient of a weight; add a second one to it, and free both it and the sum."""
        if self.accumulates:
            yield from self._to_sum(weight, size)
        elif weight in self.of_weights:
            self.pending.append(self._buffer(size))
            yield size
        else:
            self.of_weights.add(weight)
            self.gradients = self.gradients + size

    def _to_sum(self, weight: str, size: Number) -> Iterator[Number]:
        """Sum up a weight's gradients; after the last, add the sum to that of earlier micro batches."""
        self.uses[weight] -= 1
        buffer = self._buffer(size)
        if weight in self.sums:
            yield size
            self.pending.append(buffer)
            buffer = self.sums.pop(weight)
        if self.uses[weight]:
            self.sums[weight] = buffer
        else:
            self.pending.append(buffer)

    def _to_input(self, key: Key, passed: Buffer | None, size: Number) -> None:
        """Note the gradient of a tensor, a new one or the one passed on; add a second one in place."""
        buffer = self._buffer(size) if passed is None else passed
        if passed is not None:
            buffer.holders += 1
        if key in self.buffers:
            self.pending.append(buffer)
        else:
            self.buffers[key] = buffer

    def _buffer(self, size: Number) -> Buffer:
        self.flowing = self.flowing + size
        return Buffer(size)

    def _note(self, step: Step, more: Number) -> None:
        self.moments.append(BackwardMoment(step.row.path, self.kept, self.gradients, self.flowing + more))

    def _drop(self, buffers: Iterable[Buffer]) -> None:
        for buffer in buffers:
            buffer.holders -= 1
            if not buffer.holders:
                self.flowing = self.flowing - buffer.size


def _first_uses(ledger: Ledger) -> dict[int, int]:
    """The first step of the forward that keeps each storage: the last of the backward to need it.

    A region that is recomputed keeps its inputs from its first step on. What lies in RAM has none: each
    operation fetches it.
    """
    first: dict[int, int] = {}
    regions: set[str | None] = {None}
    for number, step in enumerate(ledger.steps):
        if step.region not in regions:
            regions.add(step.region)
            for key in ledger.entries.get(step.region or "", {}):
                first.setdefault(key, number)
        for allocation in step.kept:
            first.setdefault(id(allocation), number)
    return {key: number for key, number in first.items() if not (ledger.offloads and key in ledger.saved)}


def _has_own(step: Step) -> bool:
    """Whether a step has weights of its own that get a gradient."""
    return bool(step.row.stored != 0)


def _uses(ledger: Ledger) -> Counter[str]:
    """How many gradients each weight gets in one backward."""
    uses: Counter[str] = Counter()
    for step in ledger.steps:
        uses.update([f"{step.row.path}.weight"] if _has_own(step) else ())
        uses.update(v.maker for v in step.inputs if v is not None and isinstance(v.maker, str))
    return uses


def _blocks(steps: list[Step]) -> Iterator[list[int]]:
    """The numbers of the steps in reverse, grouped by how often their layer repeats."""
    numbers = range(len(steps) - 1, -1, -1)
    yield from (list(block) for _, block in groupby(numbers, lambda number: repr(steps[number].row.times)))
