"""Watts of a prediction: parts of the devices' power limit, by what bounds its seconds.

A device draws a part of its limit while it waits (launches, links, the host, other stages), another while
kernels are bound by memory, and another while they are bound by compute. `benchmarks/fit_power.py` fits the
three to published measurements (`benchmarks/measured/watts.csv`), each device held out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, hypot, log
from typing import NamedTuple

from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.prediction import Prediction

WAITING, MEMORY, COMPUTE = 0.06, 0.93, 1.0
"""Parts of the power limit, fitted."""
KINDS: Mapping[str, str] = {"memory": "memory", "cache": "memory", "compute": "compute"}
"""Kinds of seconds by what bounds them; in all others a device waits."""
LOW, HIGH = 0.70, 1.17
"""The range of rows on devices held out, each device with one weight, as multiples of the expected watts."""
SOURCE = "a model of 254 published runs on 7 NVIDIA GPUs, whose range held 216 of them, each device held out"
MILLION, JOULES_PER_KWH = 1e6, 3.6e6


class Watts(NamedTuple):
    """Watts of all devices of a plan."""

    low: float
    expected: float
    high: float


class TimeParts(NamedTuple):
    """Parts of a device's time by what it does."""

    waiting: float
    memory: float
    compute: float


def watts(
    prediction: Prediction, limit_w: float | None, plan: Plan, settings: MemorySettings
) -> Watts | None:
    """What all devices draw on average, each with a power limit of so many watts; None without one."""
    if limit_w is None:
        return None
    limit = limit_w * prediction.devices
    parts = zip(time_parts(prediction, plan, settings), (WAITING, MEMORY, COMPUTE), strict=True)
    expected = limit * sum(part * share for part, share in parts)
    return Watts(LOW * expected, expected, min(limit, HIGH * expected))


def time_parts(prediction: Prediction, plan: Plan, settings: MemorySettings) -> TimeParts:
    """The parts of a device's time in which it waits, reads and computes; they add up to 1."""
    # stages decode in turn: rows are those of a batch in all of them
    in_turn = plan.batches_at_once(settings) / plan.pp
    seconds = dict.fromkeys(("memory", "compute"), 0.0)
    total = 0.0
    for row in prediction.rows:
        decodes = "decode" in {settings.phase, row.stage}
        total += row.seconds.expected
        if row.bound_by in KINDS:
            seconds[KINDS[row.bound_by]] += row.seconds.expected * (in_turn if decodes else 1.0)
    total = max(total, prediction.seconds.expected)
    memory, compute = (part / total for part in seconds.values())
    return TimeParts(1 - memory - compute, memory, compute)


def joules_per_token(power: Watts, tokens_per_s: dict[str, float | None]) -> dict[str, float | None]:
    """Joules of a token; its range joins those of watts and speed as independent ones."""
    expected, low, high = (tokens_per_s[name] for name in ("expected", "low", "high"))
    if not (expected and low and high):
        floor = tokens_per_s["floor"]
        return {"floor": floor and power.expected / floor, "expected": None, "low": None, "high": None}
    joules = power.expected / expected
    down = hypot(log(power.expected / power.low), log(high / expected))
    up = hypot(log(power.high / power.expected), log(expected / low))
    return {"floor": None, "expected": joules, "low": joules * exp(-down), "high": joules * exp(up)}
