"""The fewest devices that a model trains or is served on, and the plan that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from archcli.errors import ArchError
from archcli.measure.memory.answers.question import DeviceMemory, MemoryAnswer, MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.ranks import RankPeak

Progress = Callable[[str], None]
MOST_DEVICES = 1 << 14
TENSOR_DEGREES = (1, 2, 4, 8)
"""Degrees of tensor parallelism that are tried in training: those of devices joined by a fast link."""
MOST_SERVING = 256


@dataclass(slots=True)
class FewestDevices:
    """Plans of a model, each traced once, however many kinds of device are asked about.

    Training shards everything over its replicas (ZeRO 3), with tensor parallelism where that takes fewer
    devices. Serving takes tensor parallelism, by degrees that divide heads and widths.
    """

    question: MemoryQuestion
    tell: Progress
    ranks: dict[Plan, tuple[RankPeak, ...]] = field(default_factory=dict)

    def plan(self, device: DeviceMemory) -> Plan | None:
        """The plan of the fewest such devices; None where no number of them does."""
        if self.question.settings.phase != "train":
            return self._serving(device)
        best: Plan | None = None
        stated = self.question.plan.tp
        for tp in (stated,) if stated > 1 else TENSOR_DEGREES:
            if best is not None and tp >= best.devices:
                break
            plan = self._training(replace(self.question.plan, tp=tp), device)
            if plan is not None and (best is None or plan.devices < best.devices):
                best = plan
        return best

    def answer(self, plan: Plan, device: DeviceMemory) -> MemoryAnswer | None:
        """What a plan takes; None where the model cannot have it."""
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
