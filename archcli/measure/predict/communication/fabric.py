"""Fabric: the links between devices, and the time of a collective over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from archcli.errors import ArchError

if TYPE_CHECKING:
    from archcli.measure.predict.communication.collective import Collective, CollectiveName

LinkName = Literal["link", "network"]
DEVICES_PER_NODE = 8
"""Devices that a link joins where a device does not state it: those of an HGX or OAM board."""


class LinkRoute(NamedTuple):
    """The way of a collective: the slower link on it, and the bytes a second that a rank sends over it."""

    link: LinkName
    bytes_per_s: float


class Fabric(NamedTuple):
    """Links of a device, one way and in GB/s; None where its datasheet states none.

    `link_gb_s` joins the `devices_per_node` devices of a node, `network_gb_s` is a device's own part of what
    joins nodes.
    """

    device: str
    link_gb_s: float | None = None
    network_gb_s: float | None = None
    devices_per_node: int = DEVICES_PER_NODE

    def route(self, collective: Collective) -> LinkRoute:
        """The way of a collective's bytes. Raises ArchError where a link's rate is not known.

        Within a node the link. Of a group of n ranks, g of them in each node, a ring passes between nodes
        over the network interfaces of all g: min(link, g x network). Of what each sends to all others, (n -
        g) / (n - 1) leaves the node over the rank's own interface, as does what is sent to the next stage.
        """
        ranks, near = collective.group.ranks, collective.group.per_node(self.devices_per_node)
        if near >= ranks:
            return LinkRoute("link", self._rate("link_gb_s"))
        return LinkRoute("network", ACROSS_NODES[collective.name](self, ranks, near))

    def _rate(self, name: Literal["link_gb_s", "network_gb_s"]) -> float:
        """Bytes a second of a link."""
        rate: float | None = getattr(self, name)
        if rate is None:
            where = "to its neighbours" if name == "link_gb_s" else f"beyond {self.devices_per_node} devices"
            hint = f"add {name} to a YAML file of one's own, or state a plan within fewer devices"
            raise ArchError(f"{self.device} states no rate {where}: {name}", hint)
        return rate * 1e9

    def ring(self, ranks: int, near: int) -> float:
        """Rate of a ring of which `near` ranks lie in each node."""
        network = near * self._rate("network_gb_s")
        return network if near == 1 else min(network, self._rate("link_gb_s"))

    def scattered(self, ranks: int, near: int) -> float:
        """Rate of a rank that sends as much to each of the others, to those near over the link."""
        network = self._rate("network_gb_s") * (ranks - 1) / (ranks - near)
        return network if near == 1 else min(network, self._rate("link_gb_s") * (ranks - 1) / (near - 1))

    def single(self, ranks: int, near: int) -> float:
        """Rate of a message to one rank of another node."""
        return self._rate("network_gb_s")


ACROSS_NODES: dict[CollectiveName, Callable[[Fabric, int, int], float]] = {
    "all_reduce": Fabric.ring,
    "all_gather": Fabric.ring,
    "reduce_scatter": Fabric.ring,
    "all_to_all": Fabric.scattered,
    "send": Fabric.single,
}
