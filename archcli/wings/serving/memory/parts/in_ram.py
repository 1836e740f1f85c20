"""The part of a model in RAM: its first layers as a pipeline stage, routed experts, and tables.

Bytes are those of a pipeline's stages; the stage in RAM is no rank of the plan.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.modules.models.layers import layer_count
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.inference import in_ram_bytes, serving, stored_bits
from archcli.wings.serving.memory.offload import MIN_BATCH, Offload
from archcli.wings.serving.memory.pipeline import Stage, stage_model
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import StoredBits, bytes_of_stage
from archcli.wings.serving.memory.traced import TracedModel, highest

FP32 = 4
"""Bytes of a number of the hidden states between a device and RAM."""


class PartInRam(NamedTuple):
    """Bytes in RAM, with the cache; of these the matrices of layers, and those that one token reads."""

    bytes: int
    matrices: int = 0


def part_in_ram(known: TracedModel, settings: MemorySettings) -> PartInRam:
    """The part of a model in RAM; empty without an offload."""
    offload = settings.offload
    if offload is None:
        return PartInRam(0)
    matrices = sum(_weights(known, settings, offload, routed=routed) for routed in (False, True))
    tables = in_ram_bytes(known.inferring, settings, known, has_head=False)
    return PartInRam(matrices + tables + int(_layers_in_ram(known, settings, offload)), matrices)


def _weights(known: TracedModel, settings: MemorySettings, offload: Offload, *, routed: bool) -> int:
    """Bytes of the layers' weights in RAM: those of routed experts, or all others."""
    layers = Stage(0, (offload.in_ram(routed=routed),), is_first=False, is_last=False)
    return bytes_of_stage(_of_kind(stored_bits(known, settings.dtype), routed=routed), layers)


def _of_kind(bits: StoredBits, *, routed: bool) -> StoredBits:
    return tuple((weight, of_one) for weight, of_one in bits if weight.routed is routed)


def _layers_in_ram(known: TracedModel, settings: MemorySettings, offload: Offload) -> Number:
    """Bytes of the cache and temporaries of the layers in RAM."""
    if not offload.layers:
        return 0
    stage = Stage(0, (range(offload.layers),), is_first=True, is_last=False)
    layers = known.once(("in RAM", stage), lambda: TracedModel(stage_model(known.model, stage)))
    return highest(serving(layers.model, settings, layers, 0).moments).bytes


def experts_in_ram(known: TracedModel, settings: MemorySettings, stage: Stage) -> int:
    """Bytes in RAM of the routed experts of a stage on a device."""
    offload = settings.offload
    if offload is None:
        return 0
    there = offload.in_ram(routed=True)
    groups = tuple(range(group.start, min(group.stop, there.stop)) for group in stage.groups)
    part = Stage(stage.number, groups, is_first=False, is_last=False)
    return bytes_of_stage(_of_kind(stored_bits(known, settings.dtype), routed=True), part)


def copied_bytes(known: TracedModel, settings: MemorySettings) -> int:
    """Bytes of the largest matrix that is copied from RAM: the device holds one at a time."""
    offload = settings.offload
    if offload is None or not any(copies(request) for request in settings.requests(known.model)):
        return 0
    bits = [
        of_one
        for weight, of_one in stored_bits(known, settings.dtype)
        if any(number in weight.layers for number in offload.in_ram(routed=weight.routed))
    ]
    return ceil(max(bits, default=0) / 8)


def copies(request: Request) -> bool:
    """Whether a pass has enough tokens for the device to copy matrices from RAM and compute itself."""
    return int(request.batch_size * request.seq_len) >= MIN_BATCH


def bus_bytes(known: TracedModel, settings: MemorySettings, request: Request) -> float:
    """Bytes that a pass moves over the bus: matrices, or hidden states to RAM and back."""
    offload, tokens = settings.offload, int(request.batch_size * request.seq_len)
    if offload is None:
        return 0.0
    if copies(request):
        return part_in_ram(known, settings).matrices
    crossings = bool(offload.layers) + 2 * (len(offload.in_ram(routed=True)) - offload.layers)
    return crossings * known.model.d_model * FP32 * tokens


def bus_bytes_per_token(known: TracedModel, settings: MemorySettings) -> float:
    """Bytes over the bus for a token: of a prefill one of the prompt, else one that is generated."""
    request = settings.requests(known.model)[0]
    if settings.phase == "serve":
        request = replace(settings, phase="decode").request(known.model)
    return bus_bytes(known, settings, request) / int(request.batch_size * request.seq_len)


def offload_record(known: TracedModel, settings: MemorySettings, ram_bytes: int) -> dict[str, Any]:
    """What lies in RAM by JSON's keys; `layers` are whole ones."""
    offload = settings.offload or Offload()
    return {
        "layers": offload.layers,
        "experts": offload.experts,
        "expert_layers": offload.expert_layers,
        "ram_bytes": ram_bytes,
        "ram_limit_bytes": offload.host.bytes,
        "bus_bytes_per_token": bus_bytes_per_token(known, settings),
        "options": offload.options(layer_count(known.model)),
    }
