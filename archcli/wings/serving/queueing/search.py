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
from archcli.wings.serving.queueing.pass_times import Figure, PredictedPasses

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
    if not meets(CLOSE * most):
        return 0.0
    while not meets(low):
        low, high = low / 2, low
    while high > (1 + CLOSE) * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


class Serving(NamedTuple):
    """A plan that meets the targets at a rate, and the passes of one replica of it."""

    plan: Plan
    passes: PredictedPasses


def fewest(server: LoadedServer, rate: float, with_plan: Callable[[Plan], LoadedServer]) -> Serving:
    """The fewest devices that meet the targets at a rate: replicas of the plan that takes most a device.

    A replica's highest rate is its own share of random arrivals. Raises ArchError where no plan meets them.
    """
    best, fewest_devices = None, MOST_DEVICES
    for plan in _replicas(server):
        if plan.devices >= fewest_devices:
            break  # one replica alone has as many
        replica = with_plan(plan)
        of_replica = highest_rate(replica, replica.usual)
        number = ceil(rate / of_replica) if of_replica else MOST_DEVICES
        if plan.devices * number < fewest_devices:
            best, fewest_devices = Serving(replace(plan, dp=number), replica.passes), plan.devices * number
    if best is None:
        raise ArchError("no plan of one node meets the targets", "later --ttft and --tpot, or another device")
    return best


def _replicas(server: LoadedServer) -> Iterator[Plan]:
    """Plans of one replica within a node that fit, of 1, 2, 4 … devices."""
    memory = server.question.memory()
    per_node, n = server.question.device.memory.per_node, 1
    while n <= per_node:
        plan = next(UsualPlans(memory, per_node).inferring(n, 1), None)
        if plan is not None and replace(memory, plan=plan).changed(batch_size=1).fits():
            yield plan
        n *= 2
