"""The highest rate of requests that meets targets, and the fewest devices for a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.wings.serving.memory.answers.fit import UsualPlans
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.queueing.load import LoadedServer
from archcli.wings.serving.queueing.pass_times import Figure

Record = dict[str, Any]
CLOSE = 0.01
"""How close to the highest rate a search ends."""
MOST_DEVICES = 1 << 12


def highest_rate(server: LoadedServer, figure: Figure) -> float:
    """Requests a second at which the percentile of requests just meets the targets; 0 where none does.

    The same requests, closer or farther apart; by bisection, to one percent.
    """

    def meets(rate: float) -> bool:
        return server.targets.met_by(server.outcome(figure, server.load.paced(rate)))

    most = low = high = server.capacity(figure)
    while not meets(low):
        low, high = low / 2, low
        if low < CLOSE * most:
            return 0.0
    while high > (1 + CLOSE) * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


class Serving(NamedTuple):
    """A plan that meets the targets at a rate, and the highest rate of one replica of it."""

    plan: Plan
    of_replica: float


def fewest(server: LoadedServer, rate: float, with_plan: Callable[[Plan], LoadedServer]) -> Serving:
    """The fewest devices that meet the targets at a rate: replicas of the plan that takes most a device.

    A replica's highest rate is its own share of random arrivals. Raises ArchError where no plan meets them.
    """
    servings = [Serving(plan, highest_rate(with_plan(plan), server.usual)) for plan in _replicas(server)]
    able = [it for it in servings if it.of_replica > 0]
    if not able:
        raise ArchError("no plan of one node meets the targets", "later --ttft and --tpot, or another device")

    def devices(serving: Serving) -> tuple[int, int]:
        return serving.plan.devices * ceil(rate / serving.of_replica), serving.plan.devices

    best = min(able, key=devices)
    number = ceil(rate / best.of_replica)
    return best._replace(plan=replace(best.plan, dp=number))


def _replicas(server: LoadedServer) -> Iterator[Plan]:
    """Plans of one replica within a node that fit, of 1, 2, 4 … devices."""
    memory = server.question.memory()
    per_node, n = server.question.device.memory.per_node, 1
    while n <= per_node:
        plan = next(UsualPlans(memory, per_node).inferring(n, 1), None)
        if plan is not None and replace(memory, plan=plan).changed(batch_size=1).fits():
            yield plan
        n *= 2
