"""What an offload leaves in RAM, of a machine or, in training, of a node: bytes, record and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.units import binary_bytes
from archcli.wings.serving.memory.offload import Offload
from archcli.wings.serving.memory.plan import DEVICES_PER_NODE, DeviceMemory, Plan
from archcli.wings.serving.memory.ranks import RankPeak
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel

COUNTED: dict[str, str] = {
    "optimizer": "Optimizer: as DeepSpeed's offload_optimizer; --trainer deepspeed adds its buckets.",
    "parameters": "Parameters: a layer and the next on the device, tables throughout, as FSDP2 gathers them.",
    "activations": "Activations: each tensor comes back when an operation of the backward reads it.",
}


def ram_record(
    known: TracedModel,
    settings: MemorySettings,
    plan: Plan,
    ranks: Sequence[RankPeak],
    device: DeviceMemory | None,
) -> dict[str, Any]:
    """What lies in RAM by JSON's keys; in training no limit where none is stated."""
    if settings.phase != "train":
        from archcli.wings.serving.memory.parts.in_ram import offload_record, part_in_ram  # of inference

        mine = plan.of_replica(settings)
        # each replica has a part of its own in the same RAM
        return offload_record(known, mine, plan.dp * part_in_ram(known, mine).bytes)
    # the devices of a node share its RAM
    devices = min(plan.devices, DEVICES_PER_NODE if device is None else device.per_node)
    offload = settings.offload or Offload()
    most = max((rank.in_ram for rank in ranks), key=lambda in_ram: sum(in_ram.values()))
    in_ram = {purpose: int(devices * size) for purpose, size in most.items()}
    return {
        "parts": list(offload.parts),
        "devices": devices,
        "ram_bytes": sum(in_ram.values()),
        "ram_limit_bytes": offload.host.bytes or None,
        "in_ram": in_ram,
    }


def ram_notes(record: Mapping[str, Any]) -> Iterator[str]:
    """Notes: what lies in RAM, and as which programs have it."""
    sizes = ", ".join(f"{name} {binary_bytes(size)}" for name, size in record["in_ram"].items())
    devices = record["devices"]
    yield f"In RAM{f' of a node, for {devices} devices' if devices > 1 else ''}: {sizes}."
    if record["ram_limit_bytes"] is None:
        yield "How much RAM there is is not stated (--ram): the verdict is on the device alone."
    yield from (COUNTED[part] for part in record["parts"])
