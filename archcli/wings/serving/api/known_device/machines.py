"""The machines that devices stand in, and the network between them: --nodes and --network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from archcli.api.asking.question import Option, count_option
from archcli.errors import ArchError
from archcli.modules.spec.arguments import memory_bytes
from archcli.modules.spec.values import AboveZero
from archcli.wings.serving.devices.instances import instance_of
from archcli.wings.serving.devices.names import split_count
from archcli.wings.serving.memory.plan import DEVICES_PER_NODE

if TYPE_CHECKING:
    from archcli.wings.serving.predict.communication.collective import NetworkConstants

Nodes = Annotated[
    AboveZero | None,
    count_option("Machines of the devices. [default: by the device]"),
]
Network = Annotated[
    str | None,
    Option(
        "Between machines, for each device: 400Gb/s, 50GB/s.",
        metavar="RATE",
        reads="text",
    ),
]
BITS = re.compile(r"([\d.]+)\s*([KMGTkmgt])(?:b|bit)(?:/s|ps)?", re.ASCII)
"""A rate in bits, 400Gb/s or 400gbps; with a capital B it is in bytes."""
LEAST_RATE = 1e7
LINKS_OF_SERVERS = ("NVLink", "Infinity Fabric")
"""Names of links begin so for devices of servers; cards are joined by PCIe."""


@dataclass(frozen=True, kw_only=True)
class NodesOption:
    """The number of machines."""

    nodes: Nodes = None


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(NodesOption):
    """The number of machines, and the network between them."""

    network: Network = None


class Machines(NamedTuple):
    """Machines as stated: their number, and GB/s of the network for each device; None for those left out."""

    nodes: int | None = None
    network_gb_s: float | None = None

    @classmethod
    def of(cls, nodes: int | None, network: str | None = None) -> Machines:
        """The machines of --nodes and --network. Raises ArchError for a rate that is none."""
        return cls(nodes, None if network is None else _rate(network))

    def counted(self, device: str) -> str:
        """The device; an instance is a machine, of which there are as many as nodes."""
        is_machine = self.nodes is not None and instance_of(device) is not None
        return f"{self.nodes}x{device}" if is_machine else device

    def in_each(self, number: int, text: str, figures: Mapping[str, float], link: str) -> int | None:
        """Devices in a machine, of so many: as stated, of the instance, or of the file; None if not known."""
        if self.nodes is not None:
            if number % self.nodes:
                what = f"--nodes {self.nodes} does not spread {number:,} device{'s' * (number > 1)} evenly"
                raise ArchError(what, "--device 16xh100-sxm --nodes 2 is 8 in each of two machines")
            return number // self.nodes
        instance = instance_of(split_count(text)[1])
        return instance.number if instance is not None else node_size(figures, link)


def node_size(figures: Mapping[str, float], link: str) -> int | None:
    """Devices in a machine by a datasheet; None of cards: as many as a machine has slots."""
    if "devices_per_node" in figures:
        return int(figures["devices_per_node"])
    if "network_gb_s" in figures or link.startswith(LINKS_OF_SERVERS):
        return DEVICES_PER_NODE if "link_gb_s" in figures else 1
    return None


def network_constants() -> NetworkConstants:
    """The constants of sums between machines."""
    from archcli.wings.serving.devices.engines import load_speeds  # of several machines alone
    from archcli.wings.serving.predict.communication.collective import NetworkConstants

    return NetworkConstants(**load_speeds("network")["speeds"]["all_reduce"]["constants"])


def _rate(text: str) -> float:
    """GB/s of 400Gb/s or 50GB/s."""
    bits = BITS.fullmatch(text.strip())
    amount = re.sub(r"(/s|ps)$", "", text.strip()) if bits is None else f"{bits[1]}{bits[2]}B"
    with suppress(ArchError):
        size = memory_bytes(amount) / (1 if bits is None else 8)
        if size >= LEAST_RATE:
            return size / 1e9
    raise ArchError(f"--network {text} is no rate of 0.01 GB/s or more", "--network 400Gb/s, or 50GB/s")
