"""Times of collectives, and what of them compute cannot hide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from archcli.measure.predict.communication.collective import Collective, Cover, Fabric, LinkName


class LinkPace(NamedTuple):
    """What links reach: seconds before the first byte, and the share of the rate on paper.

    The defaults are a floor: nothing before the first byte, and all of the rate.
    """

    latency_s: float = 0.0
    share: float = 1.0


class TimedCollective(NamedTuple):
    """A collective with the link it takes and its seconds; all of its times together."""

    collective: Collective
    link: LinkName
    time_s: float


class Exposed(NamedTuple):
    """A timed collective, and the least and most of its seconds that no computing hides."""

    timed: TimedCollective
    least_s: float
    most_s: float

    def record(self) -> dict[str, object]:
        """The collective by JSON's keys."""
        collective = self.timed.collective
        return {
            "collective": collective.name,
            "purpose": collective.purpose,
            "stage": collective.stage,
            "ranks": collective.group.ranks,
            "times": float(collective.times),
            "bytes": round(collective.bytes),
            "link": self.timed.link,
            "time_s": self.timed.time_s,
            "exposed_s": self.least_s,
            "exposed_most_s": self.most_s,
        }


FLOOR = LinkPace()


def timed(collectives: Iterable[Collective], fabric: Fabric, pace: LinkPace = FLOOR) -> list[TimedCollective]:
    """Each with its time: times x latency + bytes / (share x rate). Raises ArchError for an unknown rate."""
    times = []
    for collective in collectives:
        route = fabric.route(collective)
        seconds = float(collective.times) * pace.latency_s
        seconds += float(collective.bytes) / (pace.share * route.bytes_per_s)
        times.append(TimedCollective(collective, route.link, seconds))
    return times


def exposed(collectives: Iterable[TimedCollective], compute_s: Mapping[Cover, float]) -> list[Exposed]:
    """Each with its exposed seconds; `compute_s` are the seconds of the compute that may run meanwhile.

    Those that the same compute covers share it in proportion: together at least max(0, communication -
    compute) of them is exposed, at most all of it.
    """
    known = list(collectives)
    sums: dict[Cover, float] = {}
    for one in known:
        cover = one.collective.cover
        sums[cover] = sums.get(cover, 0.0) + one.time_s
    left = {
        # the exposed share of all that one cover may hide; an empty cover hides nothing
        cover: max(0.0, 1 - compute_s.get(cover, 0.0) / total) if cover and total else 1.0
        for cover, total in sums.items()
    }
    return [Exposed(one, one.time_s * left[one.collective.cover], one.time_s) for one in known]
