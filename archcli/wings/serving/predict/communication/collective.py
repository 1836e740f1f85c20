"""Collectives: the tensors, groups of ranks, links and seconds of each exchange.

Neighbours in rank are neighbours on the machine: tensor parallelism lies innermost, then context parallelism,
then the replicas, and the stages of a pipeline outermost (arXiv:2104.04473 section 3.3). The ranks that share
experts are neighbours within a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, log2, sqrt
from typing import Any, Literal, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.wings.serving.memory.plan import DEVICES_PER_NODE, Plan


class GroupOfRanks(NamedTuple):
    """Ranks that run a collective together: how many, and the stride from one to the next."""

    ranks: int
    stride: int = 1

    def per_node(self, devices_per_node: int) -> int:
        """Ranks of the group in one node, at least 1."""
        return min(self.ranks, max(1, devices_per_node // self.stride))


def tensor_group(plan: Plan, op: Any) -> GroupOfRanks:
    """The ranks of an op's exchange: those that share a matrix, or one of each such group."""
    if plan.dp_attention == 1:
        return GroupOfRanks(plan.tp)
    return GroupOfRanks(int(op.ranks), op.stride)


def expert_group(plan: Plan) -> GroupOfRanks:
    """The ranks that share the experts."""
    return GroupOfRanks(plan.ep)


def context_group(plan: Plan) -> GroupOfRanks:
    """The ranks that share the tokens of a sequence."""
    return GroupOfRanks(plan.cp, plan.tp)


def replica_group(plan: Plan, *, routed: bool = False) -> GroupOfRanks:
    """The ranks that hold the same weights, or with `routed` the same experts."""
    if routed and plan.ep > 1:
        # neighbours share experts, so that the replicas of one expert lie ep ranks apart
        return GroupOfRanks(plan.expert_replicas, max(plan.tp, plan.ep))
    return GroupOfRanks(plan.replicas, plan.tp)


def stage_group(plan: Plan) -> GroupOfRanks:
    """The stages of a pipeline."""
    return GroupOfRanks(plan.pp, plan.tp * plan.replicas)


def end_group(plan: Plan) -> GroupOfRanks:
    """The first and the last stage, which both hold a tied table."""
    return GroupOfRanks(2, plan.tp * plan.replicas * (plan.pp - 1))


CollectiveName = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
Purpose = Literal["tensor", "experts", "weights", "gradients", "stages", "context"]
"""The contents of an exchange: activations of split matrices, tokens for experts, weights, …"""
Cover = Literal["", "forward", "backward", "compute", "attention"]
"""The compute that may run at the same time; empty where the next operation waits for the result."""

Moment = Literal["forward", "backward", "step"]
"""When it runs; `step` is after the backward of the last micro batch."""


class Collective(NamedTuple):
    """All `times` of one kind of exchange in a step or a pass of one rank.

    `bytes` are what the rank sends in all of them, by a ring algorithm: 2 (n - 1) / n of the tensor in an
    all-reduce among n ranks, (n - 1) / n of the whole in a gather, a scatter or an all-to-all. `visits`:
    copies of a token in an all-to-all, of which a machine gets one.
    """

    name: CollectiveName
    purpose: Purpose
    group: GroupOfRanks
    bytes: Number
    times: Number
    stage: Moment = "forward"
    cover: Cover = ""
    visits: float = 1.0

    def scaled(self, times: Number) -> Collective:
        """The collective `times` as often."""
        return self._replace(bytes=times * self.bytes, times=times * self.times)


def merged(collectives: Iterable[Collective]) -> tuple[Collective, ...]:
    """The collectives, with those of one kind as one."""
    by_kind: dict[Collective, Collective] = {}
    for collective in collectives:
        kind = collective._replace(bytes=0, times=0)
        total = by_kind.get(kind, kind)
        by_kind[kind] = kind._replace(
            bytes=total.bytes + collective.bytes, times=total.times + collective.times
        )
    return tuple(by_kind.values())


LinkName = Literal["link", "network"]
ANY_NUMBER = 1 << 20
"""Devices in a machine where nothing says how many: all of them."""


class LinkRoute(NamedTuple):
    """The route of a collective: its slower link, and the bytes a second that a rank sends over it."""

    link: LinkName
    bytes_per_s: float


class LinkPace(NamedTuple):
    """Measured constants of links: latency in seconds, and the share of the rate on paper.

    The defaults are a floor: nothing before the first byte, and all of the rate. `mixed` is the factor of the
    geometric mean of latency and the time of the bytes: messages of middling size pass in small pieces.
    """

    latency_s: float = 0.0
    share: float = 1.0
    mixed: float = 0.0

    def seconds(self, times: float, floor_s: float) -> float:
        """Seconds of so many messages whose bytes take `floor_s` in all."""
        latency, moving = times * self.latency_s, floor_s / self.share
        return latency + self.mixed * sqrt(latency * moving) + moving


class NetworkConstants(NamedTuple):
    """Constants of sums among machines, fitted on published runs of nccl-tests.

    near_us, hop_us: for each doubling of the ranks in a machine, and of the machines. mixed: as of a pace.
    low, high: measured over expected, between which 80% of the runs of clusters held out lie.
    """

    near_us: float
    hop_us: float
    mixed: float
    low: float
    high: float

    def pace(self, group: GroupOfRanks, devices_per_node: int) -> LinkPace:
        """The pace of a group of ranks in several machines."""
        near = group.per_node(devices_per_node)
        latency = self.near_us * log2(near) + self.hop_us * log2(max(2.0, group.ranks / near))
        return LinkPace(latency * 1e-6, 1.0, self.mixed)


AT_LIMIT = NetworkConstants(0.0, 0.0, 0.0, 1.0, 1.0)
"""Constants of a network of which the rate alone is known."""


class Fabric(NamedTuple):
    """Links of a device, one way and in GB/s; None where its datasheet states none.

    `link_gb_s` joins the `devices_per_node` devices of a node, `network_gb_s` is a device's own part of what
    joins nodes, with the constants that `constants_of` reads. An infinite rate is one that is not known: what
    is sent takes no time then.
    """

    device: str
    link_gb_s: float | None = None
    network_gb_s: float | None = None
    devices_per_node: int = DEVICES_PER_NODE
    constants_of: Callable[[], NetworkConstants] = lambda: AT_LIMIT

    def route(self, collective: Collective) -> LinkRoute:
        """The route of a collective. Raises ArchError where a link's rate is not known.

        Within a node it is the link. In a group of n ranks, g of them in each of k = n / g nodes, gathers and
        scatters pass around rings over the interfaces of all g: min(link, g x network). Sums are made within
        nodes and then between them (NCCL's trees): each interface carries (k - 1) / k of its part, where a
        ring carries (n - 1) / n. In an all-to-all (n - g) / (n - 1) of the bytes leave the node, less the
        copies of a token for one node, which are made there (DeepSeek-V3, arXiv:2412.19437 section 3.2.2); as
        do all bytes for the next stage.
        """
        ranks, near = collective.group.ranks, collective.group.per_node(self.devices_per_node)
        if near >= ranks:
            return LinkRoute("link", self._rate("link_gb_s"))
        if collective.name == "all_to_all":
            return LinkRoute("network", self.scattered(ranks, near, collective.visits))
        return LinkRoute("network", ACROSS_NODES[collective.name](self, ranks, near))

    def _rate(self, name: Literal["link_gb_s", "network_gb_s"]) -> float:
        """Bytes a second of a link."""
        rate: float | None = getattr(self, name)
        if rate is None:
            number = self.devices_per_node
            beyond = f"beyond {number} device{'s' * (number > 1)}"
            where = "to its neighbours" if name == "link_gb_s" else beyond
            option = "state it, --network 400Gb/s" if name == "network_gb_s" else f"add {name} to a YAML"
            hint = f"{option}, or state a plan within fewer devices"
            raise ArchError(f"{self.device} states no rate {where}: {name}", hint)
        return rate * 1e9

    def unknown(self, ranks: int) -> LinkName | None:
        """What joins neighbours of so many ranks where its rate is not known."""
        if ranks > self.devices_per_node and self.network_gb_s is None:
            return "network"
        return "link" if min(ranks, self.devices_per_node) > 1 and self.link_gb_s is None else None

    def assumed(self) -> Fabric:
        """The fabric with infinite rates in place of unknown ones."""
        link, network = (inf if rate is None else rate for rate in (self.link_gb_s, self.network_gb_s))
        return self._replace(link_gb_s=link, network_gb_s=network)

    def ring(self, ranks: int, near: int, widened: float = 1.0) -> float:
        """Rate of a ring of which `near` ranks lie in each node."""
        # with one rank in a node the ring takes no link, and a device may state no rate of one
        network = widened * near * self._rate("network_gb_s")
        return network if near == 1 else min(network, self._rate("link_gb_s"))

    def tree(self, ranks: int, near: int) -> float:
        """Rate of a sum among nodes with `near` ranks each, of the bytes that a ring would send."""
        nodes = ranks / near
        return self.ring(ranks, near, ((ranks - 1) / ranks) / ((nodes - 1) / nodes))

    def scattered(self, ranks: int, near: int, visits: float) -> float:
        """Rate of a rank that sends as much to each of the others, to those near over the link."""
        # of `visits` copies to nodes at random each node gets one
        nodes = ranks / near
        once = visits / (nodes * float(1 - (1 - 1 / nodes) ** visits))
        network = self._rate("network_gb_s") * once * (ranks - 1) / (ranks - near)
        return network if near == 1 else min(network, self._rate("link_gb_s") * (ranks - 1) / (near - 1))

    def single(self, ranks: int, near: int) -> float:
        """Rate of a message to one rank of another node."""
        return self._rate("network_gb_s")


ACROSS_NODES: dict[CollectiveName, Callable[[Fabric, int, int], float]] = {
    "all_reduce": Fabric.tree,
    "all_gather": Fabric.ring,
    "reduce_scatter": Fabric.ring,
    "send": Fabric.single,
}


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

    def scaled(self, times: float) -> Exposed:
        """The collective `times` as often."""
        sent = self.timed
        often = sent._replace(collective=sent.collective.scaled(times), time_s=times * sent.time_s)
        return Exposed(often, times * self.least_s, times * self.most_s)

    def not_below(self, least_s: float) -> Exposed:
        """The same, with so many seconds at least that no computing hides."""
        return self._replace(least_s=max(self.least_s, least_s), most_s=max(self.most_s, least_s))

    def plus(self, further: Exposed) -> Exposed:
        """Both together, of one kind."""
        ours, theirs = self.timed.collective, further.timed.collective
        sums = ours._replace(bytes=ours.bytes + theirs.bytes, times=ours.times + theirs.times)
        both = self.timed._replace(collective=sums, time_s=self.timed.time_s + further.timed.time_s)
        return Exposed(both, self.least_s + further.least_s, self.most_s + further.most_s)

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
        seconds = pace.seconds(float(collective.times), float(collective.bytes) / route.bytes_per_s)
        times.append(TimedCollective(collective, route.link, seconds))
    return times


def exposed(collectives: Iterable[TimedCollective], compute_s: Mapping[Cover, float]) -> list[Exposed]:
    """Each with its exposed seconds; `compute_s` are the seconds of the compute that may cover them.

    Collectives with the same cover share it in proportion: together at least max(0, communication - compute)
    seconds of them are exposed, at most all.
    """
    collectives = list(collectives)
    sums: dict[Cover, float] = {}
    for sent in collectives:
        cover = sent.collective.cover
        sums[cover] = sums.get(cover, 0.0) + sent.time_s
    left = {
        # the exposed share of all that one cover may hide; an empty cover hides nothing
        cover: max(0.0, 1 - compute_s.get(cover, 0.0) / total) if cover and total else 1.0
        for cover, total in sums.items()
    }
    return [Exposed(sent, sent.time_s * left[sent.collective.cover], sent.time_s) for sent in collectives]
