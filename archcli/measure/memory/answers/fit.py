"""What fits into a device: the largest batch or context, the least recomputation, the fewest devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from archcli.errors import ArchError
from archcli.measure.memory.answers.kept_rows import folded_rows, kept_rows
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.memory.plan import Plan

Fit = Literal["batch", "context", "recompute", "devices"]
Progress = Callable[[str], None]
Record = dict[str, Any]
MOST = 1 << 24
"""The largest batch, context or number of devices that is tried."""
MOST_DEVICES = 1 << 14


def fit(question: MemoryQuestion, what: Fit, tell: Progress) -> Record:
    """What fits, and the plan that does it; values are None where nothing does.

    `tell` hears of each attempt. Raises ArchError where no device is given.
    """
    if question.device is None:
        raise ArchError(f"--fit {what} needs a device to fit into", "--device h100-sxm, or --memory 80GiB")
    return FITS[what](question, tell)


def _batch(question: MemoryQuestion, tell: Progress) -> Record:
    def attempt(n: int) -> bool:
        tell(f"batch size {n:,}")
        return question.changed(batch_size=n).fits()

    largest = _largest(attempt, MOST)
    return _found(question, {"batch_size": largest}, largest)


def _context(question: MemoryQuestion, tell: Progress) -> Record:
    def attempt(n: int) -> bool:
        tell(f"{n:,} tokens")
        return question.changed(seq_len=n).fits()

    longest = _largest(attempt, MOST)
    return _found(question, {"seq_len": longest}, longest)


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
    """The settings in the order of the FLOPs that they repeat; the first that fits."""
    if question.settings.phase != "train":
        raise ArchError("recomputation is of training", "--phase train")
    for setting in _recomputations(question):
        tell(f"recompute {setting}")
        if question.changed(recompute=setting).fits():
            return _found(question, {"recompute": setting}, setting)
    return _found(question, {}, None)


def _recomputations(question: MemoryQuestion) -> list[str]:
    """Patterns of single rows that free most for their FLOPs, then larger pieces."""
    whole = question.changed(recompute="none")
    rows = folded_rows(kept_rows(question.model, whole.answer().largest.traced))
    layered = [row["path"] for row in rows if ".layers.*." in f".{row['path']}"]
    free = [f"*{path.partition('layers.*')[2]}" for path in layered[:3]]
    return ["none", *free, "attention", "layers.*.ffn", "layer"]


def _devices(question: MemoryQuestion, tell: Progress) -> Record:
    """The fewest devices that train by sharding everything (ZeRO 3), or that serve by tensor parallelism."""
    plans = _training_plans if question.settings.phase == "train" else _serving_plans

    def fits(n: int) -> Plan | None:
        tell(f"{n:,} devices")
        for plan in plans(question.plan, n):
            try:
                if replace(question, plan=plan).fits():
                    return plan
            except ArchError:
                continue
        return None

    low, high = 0, 1
    while high <= MOST_DEVICES and fits(high) is None:
        low, high = high, 2 * high
    while high - low > 1 and high <= MOST_DEVICES:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    plan = fits(high) if high <= MOST_DEVICES else None
    if plan is None:
        return _found(question, {}, None)
    changed = replace(question, plan=plan)
    return {"value": plan.devices, "plan": plan.inputs(), "peak_bytes": changed.answer().peak_bytes}


def _training_plans(plan: Plan, n: int) -> list[Plan]:
    if n % (plan.tp * plan.pp * plan.cp):
        return []
    dp = n // (plan.tp * plan.pp * plan.cp)
    return [replace(plan, dp=dp, zero=3 if dp > 1 else 0)]


def _serving_plans(plan: Plan, n: int) -> list[Plan]:
    return [replace(plan, tp=n, dp=1, zero=0)]


def _found(question: MemoryQuestion, settings: Record, value: Any) -> Record:
    """What was found, and the plan it was found with."""
    if value is None:
        return {"value": None, "plan": question.plan.inputs(), "peak_bytes": None}
    answer = question.changed(**settings).answer()
    return {"value": value, "plan": question.plan.inputs(), "peak_bytes": answer.peak_bytes, **settings}


FITS: dict[str, Callable[[MemoryQuestion, Progress], Record]] = {
    "batch": _batch,
    "context": _context,
    "recompute": _recompute,
    "devices": _devices,
}
