"""What fits into a device: batch, context, recomputation; and the fewest devices for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isqrt
from typing import Any

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules.models.model import inferring
from archcli.wings.serving.memory.answers.question import Fit, MemoryAnswer, MemoryQuestion
from archcli.wings.serving.memory.answers.recomputations import cheapest
from archcli.wings.serving.memory.answers.tables import plan_options
from archcli.wings.serving.memory.answers.verdict import surely_lacking
from archcli.wings.serving.memory.inference import in_ram_bytes
from archcli.wings.serving.memory.plan import (
    DEVICES_PER_NODE,
    ONE_DEVICE,
    DeviceMemory,
    Plan,
    divisors,
    n_stacked_layers,
)
from archcli.wings.serving.memory.ranks import RankPeak, least_bytes
from archcli.wings.serving.memory.reserved.reserves import reserves_of

Progress = Callable[[str], None]
MOST_DEVICES = 1 << 14
TENSOR_DEGREES = (1, 2, 4, 8)
"""Degrees of tensor parallelism that are tried in training: those of devices joined by a fast link."""
MOST_SERVING = 256


@dataclass(slots=True)
class UsualPlans:
    """The usual plans of several devices for a question's model; a link joins those of a node.

    Training shards weights, gradients and states over all devices (ZeRO 3); further plans have tensor
    parallelism as well. Inference splits each matrix over as many devices of a node as can; these have
    replicas where the model fits into each, or are stages one after the other. That there are sequences for
    all replicas is not asked: with another batch another plan would be quicker, and a larger one take less
    time than a smaller one. An engine that splits layers has stages alone.
    """

    question: MemoryQuestion
    per_node: int
    _suits: dict[Plan, bool] = field(default_factory=dict)

    def of(self, n_devices: int) -> list[Plan]:
        """The plans of so many devices in their order; of inference plans of fewer where it has none.

        Raises ArchError where the settings suit the model on no number of devices.
        """
        model, settings = self.question.model, self.question.settings
        if settings.phase == "train":
            return list(self._training(n_devices))
        if not self._can_be(ONE_DEVICE):
            ONE_DEVICE.check(model, settings)
        # an engine that splits layers has no more stages than there are layers
        most = min(n_devices, n_stacked_layers(model)) if settings.splits_layers else n_devices
        fewer = (list(self.inferring(n)) for n in range(most, 0, -1))
        return next(plans for plans in fewer if plans)

    def _training(self, n_devices: int) -> Iterator[Plan]:
        yield Plan(dp=n_devices, zero=3)
        for tp in TENSOR_DEGREES[1:]:
            dp, rest = divmod(n_devices, tp)
            plan = Plan(dp=dp, tp=tp, zero=3 if dp > 1 else 0)
            if not rest and tp <= self.per_node and self._can_be(plan):
                yield plan

    def inferring(self, n_devices: int, most_replicas: int | None = None) -> Iterator[Plan]:
        """Plans of so many devices, with the most devices for each matrix, and ever more stages."""
        if self.question.settings.splits_layers:
            plan = Plan(pp=n_devices)
            if self._can_be(plan):
                yield plan
            return
        for tp in reversed(divisors(n_devices)):
            if tp > self.per_node or not self._can_be(Plan(tp=tp)):
                continue
            rest = n_devices // tp
            most = rest if most_replicas is None else most_replicas
            plans = [Plan(dp=rest // pp, tp=tp, pp=pp) for pp in divisors(rest) if rest // pp <= most]
            staged = [plan for plan in plans if plan.pp == 1 or self._can_be(Plan(pp=plan.pp))]
            if staged:
                yield from staged
                return

    def _can_be(self, plan: Plan) -> bool:
        """Whether the model can have a plan; each is checked once, in inference for any number of tokens."""
        question = self.question
        suits = self._suits if question.settings.phase == "train" else question.traced.suits
        if plan not in suits:
            suits[plan] = plan.suits(question.model, question.settings)
        return suits[plan]


def usual_plans(question: MemoryQuestion, n_devices: int) -> list[Plan]:
    """The usual plans of so many devices, in inference the same at any context."""
    per_node = question.device.per_node if question.device else DEVICES_PER_NODE
    usual, trains = UsualPlans(question, per_node), question.settings.phase == "train"
    key = "usual plans", n_devices, per_node, question.settings.splits_layers
    return usual.of(n_devices) if trains else question.traced.once(key, lambda: usual.of(n_devices))


def usual_plan(question: MemoryQuestion, n_devices: int) -> Plan:
    """The first of the usual plans of so many devices that fits; if none does, the one that needs least."""
    plans = usual_plans(question, n_devices)
    if len(plans) == 1 or question.device is None:
        return plans[0]
    known, settings, memory_bytes = question.traced, question.settings, question.device.memory_bytes
    least = {plan: least_bytes(known, settings, plan) for plan in plans}
    needed: dict[Plan, int] = {}
    # plans whose weights alone are too much come last, and are traced where they may be those that need least
    for plan in sorted(plans, key=lambda plan: max(least[plan], memory_bytes)):
        if least[plan] > min([*needed.values(), least[plan]]):
            continue
        with suppress(ArchError):  # of settings that are refused with any plan
            needed[plan] = replace(question, plan=plan).answer().needed_bytes
            if needed[plan] <= memory_bytes:
                return plan
    return min((plan for plan in plans if plan in needed), key=lambda plan: needed[plan], default=plans[0])


@dataclass
class FewestDevices:
    """The plan of the fewest devices for a model; each plan is traced once for all kinds of device.

    Training shards everything over its replicas (ZeRO 3), with tensor parallelism where that takes fewer
    devices. Serving takes tensor parallelism within a node, by degrees that divide heads and widths, and
    stages beyond. No matrix is shared by more devices than a link joins.
    """

    question: MemoryQuestion
    tell: Progress
    ranks: dict[Plan, tuple[RankPeak, ...]] = field(default_factory=dict)
    usual: dict[int, UsualPlans] = field(default_factory=dict)

    @cached_property
    def weights(self) -> int:
        """Bytes of all weights of a model that is not trained, but for those in RAM."""
        model, settings = inferring(self.question.model), self.question.settings
        return weight_bytes(model, shape_pass(model).rows, settings.dtype) - in_ram_bytes(model, settings)

    def plan(self, device: DeviceMemory) -> Plan | None:
        """The plan of the fewest such devices; None if the model fits into no number of them."""
        if self.question.settings.phase != "train":
            return self._serving(device)
        if device.per_node == 1 and self.question.device is None:
            # computers of one device, such as Macs: nobody shards a step over several
            return self.question.plan if self.fits(self.question.plan, device) else None
        best: Plan | None = None
        tp_of_plan = self.question.plan.tp
        for tp in (tp_of_plan,) if tp_of_plan > 1 else TENSOR_DEGREES:
            # no fewer devices than the best so far, even with one replica
            if (best is not None and tp >= best.devices) or tp > device.per_node:
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
        return answer is not None and answer.fits(device)

    def _serving(self, device: DeviceMemory) -> Plan | None:
        question = self.question
        usual = self.usual.setdefault(device.per_node, UsualPlans(question, device.per_node))
        # the weights alone: fewer devices are not worth a trace
        least = max(1, -(-self.weights // device.memory_bytes))
        for n in range(least, MOST_SERVING + 1):
            plan = next(usual.inferring(n, 1), None)
            if plan is not None and self.fits(plan, device):
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
    if what == "devices" and question.device is not None and question.device.unlike:
        raise ArchError("--fit devices counts equal devices", f"--device {question.device.unlike[0].name}")
    if question.device is None:
        raise ArchError(f"--fit {what} needs a device to fit into", "--device h100-sxm, or --memory 80GiB")
    return FITS[what](question, tell)


def _batch(question: MemoryQuestion, tell: Progress) -> Record:
    largest = most_sequences(question, MOST, tell)
    sure = largest and most_sequences(question, largest, tell, surely_lacking)
    return {**_fitted(question, {"batch_size": largest}, largest), "sure": sure}


def most_sequences(
    question: MemoryQuestion,
    most: int,
    tell: Progress = lambda attempt: None,  # noqa: ARG005
    lacking: Callable[[MemoryQuestion], int] = MemoryQuestion.lacking,
) -> int | None:
    """The largest batch that fits, of at most so many; None where 1 does not."""

    def lacking_of(n: int) -> int:
        tell(f"batch size {n:,}")
        return lacking(question.changed(batch_size=n))

    return _largest(lacking_of, most)


def _context(question: MemoryQuestion, tell: Progress) -> Record:
    def longest(most: int, lacking: Callable[[MemoryQuestion], int]) -> int | None:
        def lacking_of(n: int) -> int:
            tell(f"{n:,} tokens")
            return lacking(question.changed(seq_len=n * shared))

        number = _largest(lacking_of, most // shared)
        return None if number is None else number * shared

    plan = question.plan
    shared = plan.cp * (plan.tp if plan.sp else 1)
    tokens = longest(MOST, MemoryQuestion.lacking)
    sure = tokens and longest(tokens, surely_lacking)
    return {**_fitted(question, {"seq_len": tokens}, tokens), "sure": sure}


def _rank(question: MemoryQuestion, tell: Progress) -> Record:
    """The largest rank of adapters, at most as wide as the model."""
    model, lora = question.model, question.model.lora
    if lora is None:
        raise ArchError("--fit rank is of adapters, and the model has none", "--method lora")

    engine = question.settings.engine or NO_ENGINE
    sizes = reserves_of(engine).adapter_ranks if engine.adapters else ()

    def of(rank: int) -> MemoryQuestion:
        return replace(question, model=model.replace(lora=lora.replace(rank=rank)))

    def largest(most: int, lacking: Callable[[MemoryQuestion], int]) -> int | None:
        def lacking_of(rank: int) -> int:
            tell(f"rank {rank:,}")
            return lacking(of(rank))

        rank = _largest(lacking_of, most)
        return max((size for size in sizes if size <= (rank or 0)), default=None) if sizes else rank

    rank = largest(model.d_model, MemoryQuestion.lacking)
    sure = rank and largest(rank, surely_lacking)
    return {**_fitted(of(rank or 1), {}, rank), "rank": rank, "sure": sure}


Lacking = Callable[[int], int]
"""Bytes that are lacking for so many sequences or tokens; 0 or less where they fit."""


def _largest(lacking: Lacking, most: int) -> int | None:
    """The largest number that fits, by doubling and then narrowing; None where 1 does not."""
    low, high = 0, 1
    while high <= most and lacking(high) <= 0:
        low, high = high, 2 * high
    if low and high > most:
        return most if lacking(most) <= 0 else narrowed(lacking, low, most)
    return narrowed(lacking, low, high) if low else None


def narrowed(lacking: Lacking, low: int, high: int) -> int:
    """The largest number that fits, where `low` does and `high` does not.

    Bytes grow with it in a few straight lines: that between both ends says where to look next, and their
    geometric mean where the line has led nowhere.
    """
    ends = {n: lacking(n) for n in (low, high)}
    straight = STRAIGHT
    while high - low > 1:
        width, middle = high - low, max(low + 1, isqrt(low * high))
        on_line = low - width * ends[low] // (ends[high] - ends[low])
        next_one = min(max(on_line, low + 1), high - 1) if straight else middle
        ends[next_one] = lacking(next_one)
        low, high = (next_one, high) if ends[next_one] <= 0 else (low, next_one)
        straight = STRAIGHT if 2 * (high - low) <= width or not straight else straight - 1
    return low


STRAIGHT = 2
"""How often the line between both ends may fail to halve the interval before the middle is tried."""


def _recompute(question: MemoryQuestion, tell: Progress) -> Record:
    """The setting that fits for the fewest repeated FLOPs."""
    if question.settings.phase != "train":
        raise ArchError("--fit recompute applies to training only", "--phase train")
    best = cheapest(question, tell)
    # the RAM of an offload counts, too
    if best is None or not question.changed(recompute=best.setting).fits():
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
    records = list[Record]()
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
    records.sort(key=lambda it: (it["memory_bytes"] * (it["fewest_devices"] or inf), it["memory_bytes"]))
    return {"value": None, "plan": question.plan.inputs(), "peak_bytes": None, "devices": records}


def _fitted(question: MemoryQuestion, settings: Record, value: Any) -> Record:
    """The record of a value that fits, and of the `settings` it stands for: their plan and their peak."""
    if value is None:
        return {"value": None, "plan": question.plan.inputs(), "peak_bytes": None}
    answer = replace(question, settings=replace(question.settings, **settings)).answer()
    return {"value": value, "plan": question.plan.inputs(), "peak_bytes": answer.peak_bytes, **settings}


FITS: dict[str, Callable[[MemoryQuestion, Progress], Record]] = {
    "batch": _batch,
    "context": _context,
    "rank": _rank,
    "recompute": _recompute,
    "devices": _devices,
}
