"""Sending: seconds in which a rank sends and computes nothing, expected and as a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from archcli.measure.predict.communication.collective import Collective, Cover
from archcli.measure.predict.communication.timing import Exposed, LinkPace, exposed, timed
from archcli.measure.predict.rank.seconds import Seconds
from archcli.measure.predict.rank.times import RankTimes, StageTimes

OF_REPLICAS = ("weights", "gradients")
"""Purposes of the collectives that the constants of training steps were fitted with."""


class Sending(NamedTuple):
    """Seconds in which a rank sends and computes nothing, and the collectives one by one."""

    seconds: Seconds
    communication: tuple[Exposed, ...]


def sending(collectives: Sequence[Collective], times: RankTimes, one: StageTimes, number: int) -> Sending:
    """What a rank sends, beside the compute of so many micro batches."""
    device = times.device
    floor = exposed(timed(collectives, device.fabric), _covers(one, number, "floor"))
    least = sum(each.least_s for each in floor)
    if not device.has_constants(times.settings.dtype):
        return Sending(Seconds(least, least, least, sum(each.most_s for each in floor)), tuple(floor))
    exposures = list(_expected(collectives, times, _covers(one, number, "expected")))
    expected = sum(each.least_s for each, _ in exposures)
    low = sum(ranged.low for _, ranged in exposures)
    high = sum(ranged.high for _, ranged in exposures)
    return Sending(Seconds(least, expected, low, high), tuple(each for each, _ in exposures))


def _covers(one: StageTimes, number: int, kind: Literal["floor", "expected"]) -> Mapping[Cover, float]:
    """Seconds of the compute that may run while something is sent."""
    forward, other, attention = (number * getattr(seconds, kind) for seconds in one[:3])
    return {"forward": forward, "backward": other, "compute": forward + other, "attention": attention}


def _expected(
    collectives: Iterable[Collective], times: RankTimes, covers: Mapping[Cover, float]
) -> Iterator[tuple[Exposed, Seconds]]:
    """Collectives with what is exposed of them, by the constants of steps or of rings.

    What replicas send in a step has a constant of its own, which tells what compute hides; all else is what a
    ring reaches, behind the compute that may cover it.
    """
    step, fabric, others = times.step, times.device.fabric, []
    for collective in collectives:
        if step is None or collective.purpose not in OF_REPLICAS:
            ring = times.device.clock.efficiency.ring(collective.group.ranks)
            pace = LinkPace(ring.latency, ring.link) if ring else LinkPace()
            share = ring.range(float(collective.bytes / collective.times)) if ring else (1.0, 1.0)
            others.append((timed([collective], fabric, pace)[0], share))
            continue
        (on_paper,) = timed([collective], fabric)
        seconds, origin = on_paper.time_s / step.communication, step.origin
        low, high = origin.low * seconds, origin.high * seconds
        # a constant below 1 says that links are slower than on paper: what is exposed is under way
        taken = max(seconds, on_paper.time_s)
        yield Exposed(on_paper._replace(time_s=taken), seconds, taken), Seconds(0.0, seconds, low, high)
    shown = exposed([one for one, _ in others], covers)
    for each, (_, (low, high)) in zip(shown, others, strict=True):
        yield each, Seconds(0.0, each.least_s, low * each.least_s, high * each.most_s)
