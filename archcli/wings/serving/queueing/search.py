"""The highest rate of requests that meets targets, and the fewest devices for a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.wings.serving.memory.answers.fit import UsualPlans
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.queueing.load import LoadedServer
from archcli.wings.serving.queueing.outcome import LoadOutcome
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


class PlanPoint(NamedTuple):
    """A plan under a load, at its highest rate within targets or at the load's, and what it brings.

    is_front: no other makes more tokens, and each sooner.
    """

    server: LoadedServer
    rate: float | None
    outcome: LoadOutcome
    is_front: bool = False

    @property
    def merit(self) -> tuple[float, float]:
        """What makes a plan the best: its rate within targets, else the shortest time of a request."""
        return (self.rate or 0.0, -self.outcome.end_to_end.mean)

    def beats(self, point: PlanPoint) -> bool:
        """Whether it makes more tokens a second and each sooner, or one of both and is alike in the other."""
        ours, theirs = self.outcome, point.outcome
        more, sooner = ours.tokens_per_s - theirs.tokens_per_s, theirs.per_token.mean - ours.per_token.mean
        return min(more, sooner) >= 0 < max(more, sooner)


def plan_points(servers: Iterable[LoadedServer], *, seeks_rate: bool) -> list[PlanPoint]:
    """Each server under its load, or at its highest rate within targets; without those that meet none."""
    points = []
    for server in servers:
        rate = highest_rate(server, server.usual) if seeks_rate else server.load.rate
        if rate or not seeks_rate:
            paced = replace(server, load=server.load.paced(rate)) if rate else server
            outcome = paced.outcome(server.usual)
            points.append(PlanPoint(paced, rate, outcome))
    return [point._replace(is_front=not any(it.beats(point) for it in points)) for point in points]


def plans_of(server: LoadedServer) -> Iterator[Plan]:
    """Plans of all devices of the question: replicas of 1, 2, 4 … devices that fit."""
    n_devices = server.question.device.memory.n_devices
    for plan in _replicas(server):
        number, rest = divmod(n_devices, plan.devices)
        if number and not rest:
            yield replace(plan, dp=number)


def _replicas(server: LoadedServer) -> Iterator[Plan]:
    """Plans of one replica within a node that fit, of 1, 2, 4 … devices."""
    memory = server.question.memory()
    per_node, n = server.question.device.memory.per_node, 1
    while n <= per_node:
        plan = next(UsualPlans(memory, per_node).inferring(n, 1), None)
        if plan is not None and replace(memory, plan=plan).changed(batch_size=1).fits():
            yield plan
        n *= 2
