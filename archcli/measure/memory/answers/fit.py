"""What fits into a device: batch, context, recomputation; and the fewest devices for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import DeviceMemory, Fit, MemoryAnswer, MemoryQuestion
from archcli.measure.memory.answers.recomputations import cheapest
from archcli.measure.memory.answers.tables import plan_options
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.ranks import RankPeak

Progress = Callable[[str], None]
MOST_DEVICES = 1 << 14
TENSOR_DEGREES = (1, 2, 4, 8)
"""Degrees of tensor parallelism that are tried in training: those of devices joined by a fast link."""
MOST_SERVING = 256


@dataclass(slots=True)
class FewestDevices:
    """The plan of the fewest devices for a model; each plan is traced once for all kinds of device.

    Training shards everything over its replicas (ZeRO 3), with tensor parallelism where that takes fewer
    devices. Serving takes tensor parallelism, by degrees that divide heads and widths.
    """

    question: MemoryQuestion
    tell: Progress
    ranks: dict[Plan, tuple[RankPeak, ...]] = field(default_factory=dict)

    def plan(self, device: DeviceMemory) -> Plan | None:
        """The plan of the fewest such devices; None if the model fits into no number of them."""
        if self.question.settings.phase != "train":
            return self._serving(device)
        best: Plan | None = None
        tp_of_plan = self.question.plan.tp
        for tp in (tp_of_plan,) if tp_of_plan > 1 else TENSOR_DEGREES:
            # no fewer devices than the best so far, even with one replica
            if best is not None and tp >= best.devices:
                break
            plan = self._training(replace(self.question.plan, tp=tp), device)
            if plan is not None and (best is None or plan.devices < best.devices):
                best = plan
        return best

    def answer(self, plan: Plan, device: DeviceMemory) -> MemoryAnswer | None:
        """The memory of a plan; None if the model cannot have it."""
        question = replace(self.question, plan=plan, device=device)
        if plan not in self.ranks:
            self.tell(f"{plan.devices:,} devices")
            try:
                self.ranks[plan] = question.ranks()
            except ArchError:
                self.ranks[plan] = ()
        return question.answer_with(self.ranks[plan]) if self.ranks[plan] else None

    def fits(self, plan: Plan, device: DeviceMemory) -> bool:
        """Whether a plan's largest rank fits into such a device."""
        answer = self.answer(plan, device)
        return answer is not None and answer.needed_bytes <= device.memory_bytes

    def _serving(self, device: DeviceMemory) -> Plan | None:
        for tp in range(1, MOST_SERVING + 1):
            plan = Plan(tp=tp)
            if self._is_possible(plan) and self.fits(plan, device):
                return plan
        return None

    def _training(self, plan: Plan, device: DeviceMemory) -> Plan | None:
        """The fewest replicas, by doubling and then halving the interval."""
        if not self._is_possible(replace(plan, dp=1, zero=0)):
            return None

        def of(dp: int) -> Plan:
            return replace(plan, dp=dp, zero=3 if dp > 1 else 0)

        high, most = 1, MOST_DEVICES // replace(plan, dp=1).devices
        if not (self.fits(of(1), device) or self.fits(of(most), device)):
            return None
        while not self.fits(of(high), device):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fits(of(middle), device) else (middle, high)
        return of(high)

    def _is_possible(self, plan: Plan) -> bool:
        try:
            plan.check(self.question.model, self.question.settings)
        except ArchError:
            return False
        return True


Record = dict[str, Any]
MOST = 1 << 24
"""The largest batch or context that is tried."""


def fit(question: MemoryQuestion, what: Fit, tell: Progress, devices: Sequence[DeviceMemory] = ()) -> Record:
    """The largest value that fits, and its plan; None where none fits.

    `devices` are asked about where the question names none. `tell` hears of each attempt. Raises ArchError
    where no device is given.
    """
    if question.device is None and what == "devices" and devices:
        return _survey(question, devices, tell)
    if question.device is None:
        raise ArchError(f"--fit {what} needs a device to fit into", "--device h100-sxm, or --memory 80GiB")
    return FITS[what](question, tell)


def _batch(question: MemoryQuestion, tell: Progress) -> Record:
    def attempt(n: int) -> bool:
        tell(f"batch size {n:,}")
        return question.changed(batch_size=n).fits()

    largest = _largest(attempt, MOST)
    return _fitted(question, {"batch_size": largest}, largest)


def _context(question: MemoryQuestion, tell: Progress) -> Record:
    def attempt(n: int) -> bool:
        tell(f"{n:,} tokens")
        return question.changed(seq_len=n * shared).fits()

    plan = question.plan
    shared = plan.cp * (plan.tp if plan.sp else 1)
    longest = _largest(attempt, MOST // shared)
    tokens = None if longest is None else longest * shared
    return _fitted(question, {"seq_len": tokens}, tokens)


def _largest(attempt: Callable[[int], bool], most: int) -> int | None:
    """The largest number that fits, by doubling and then halving the interval; None where 1 does not."""
    low, high = 0, 1
    while high <= most and attempt(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if attempt(middle) else (low, middle)
    return low or None


def _recompute(question: MemoryQuestion, tell: Progress) -> Record:
    """The setting that fits for the fewest repeated FLOPs."""
    if question.settings.phase != "train":
        raise ArchError("--fit recompute applies to training only", "--phase train")
    best = cheapest(question, tell)
    if best is None:
        return _fitted(question, {}, None)
    fitted = _fitted(question, {"recompute": best.setting}, best.setting)
    return {**fitted, "recompute_flops": best.repeated_flops}


def _devices(question: MemoryQuestion, tell: Progress) -> Record:
    device = question.device
    fewest = FewestDevices(question, tell)
    plan = None if device is None else fewest.plan(device)
    if device is None or plan is None:
        return _fitted(question, {}, None)
    answer = fewest.answer(plan, device)
    peak = None if answer is None else answer.peak_bytes
    return {"value": plan.devices, "plan": plan.inputs(), "peak_bytes": peak, "options": plan_options(plan)}


def _survey(question: MemoryQuestion, devices: Sequence[DeviceMemory], tell: Progress) -> Record:
    """For each kind of device whether the plan fits, and the fewest that do; least total memory first."""
    fewest = FewestDevices(question, tell)
    records = []
    for device in devices:
        plan = fewest.plan(device)
        records.append(
            {
                "device": device.name,
                "memory_bytes": device.memory_bytes,
                "fits": fewest.fits(question.plan, device),
                "fewest_devices": None if plan is None else plan.devices,
                "plan": None if plan is None else plan.inputs(),
                "options": None if plan is None else plan_options(plan),
            }
        )
    records.sort(key=_memory_in_all)
    return {"value": None, "plan": question.plan.inputs(), "peak_bytes": None, "devices": records}


def _memory_in_all(record: Record) -> tuple[float, int]:
    n, size = record["fewest_devices"], record["memory_bytes"]
    return (float("inf") if n is None else n * size, size)


def _fitted(question: MemoryQuestion, settings: Record, value: Any) -> Record:
    """The record of a value that fits, and of the `settings` it stands for: their plan and their peak."""
    if value is None:
        return {"value": None, "plan": question.plan.inputs(), "peak_bytes": None}
    answer = replace(question, settings=replace(question.settings, **settings)).answer()
    return {"value": value, "plan": question.plan.inputs(), "peak_bytes": answer.peak_bytes, **settings}


FITS: dict[str, Callable[[MemoryQuestion, Progress], Record]] = {
    "batch": _batch,
    "context": _context,
    "recompute": _recompute,
    "devices": _devices,
}
