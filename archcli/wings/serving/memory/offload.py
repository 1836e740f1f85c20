"""Offload: what of a model lies in RAM: first layers or routed experts; in training parts of a step.

Of llama.cpp the CPU computes with what lies in RAM, unless a pass has 32 tokens or more: then matrices are
copied over the bus, one after the other, and the device computes (`op_offload_min_batch_size`,
ggml/src/ggml-cuda).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from archcli.modules.spec.values import Conversion, refused

GIB, GIGA = 2**30, 1e9
MIN_BATCH = 32
"""The fewest tokens of a pass for which matrices are copied from RAM."""
Part = Literal["optimizer", "parameters", "activations"]
"""What of a training step can lie in RAM."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The RAM beside a device: its bytes, its bytes a second, and those of the bus between both.

    The defaults are a desktop's: two channels of DDR5-5000, and what PCIe 4 x16 reaches of its 32 GB/s.
    bytes: 0 where they are not stated.
    """

    bytes: int = 64 * GIB
    bandwidth: float = 80 * GIGA
    bus: float = 25 * GIGA


@dataclass(frozen=True, slots=True)
class Offload:
    """The number of first layers in RAM, whole and with their cache, and of those with experts in RAM.

    Of the first `expert_layers` the routed experts are in RAM; the first `layers` have theirs there anyway.
    parts: of a training step, which has no layers in RAM.
    """

    layers: int = 0
    expert_layers: int = 0
    host: HostMemory = HostMemory()
    parts: tuple[Part, ...] = ()

    @property
    def experts(self) -> bool:
        """Whether experts of layers are in RAM that are not there themselves."""
        return self.expert_layers > self.layers

    def in_ram(self, *, routed: bool) -> range:
        """The layers whose weights are in RAM: those of routed experts, or all others."""
        return range(max(self.layers, self.expert_layers) if routed else self.layers)

    @property
    def in_words(self) -> str:
        """What is in RAM, in a title."""
        parts: list[str] = [*self.parts, *([f"{self.layers:,} layers"] * (self.layers > 0))]
        parts += [f"experts of {self.expert_layers:,} layers"] * self.experts
        *others, last = parts or ["tables"]
        return f"{', '.join(others)} and {last} in RAM" if others else f"{last} in RAM"

    @property
    def text(self) -> str:
        """The offload as --offload takes it: layers:20, experts:20, or layers:20,experts:40."""
        experts = [f"experts:{self.expert_layers}"] * self.experts
        return ",".join([*([f"layers:{self.layers}"] * (self.layers > 0 or not experts)), *experts])

    def inputs(self) -> dict[str, object]:
        """The offload by JSON's keys."""
        host = self.host
        layers = {"layers": self.layers, "expert_layers": self.expert_layers}
        return {
            **({"parts": list(self.parts)} if self.parts else layers),
            "ram_bytes": host.bytes or None,
            "ram_bytes_per_s": host.bandwidth,
            "bus_bytes_per_s": host.bus,
        }

    def options(self, n_layers: int) -> str:
        """The options of llama.cpp, for which the head is one more layer."""
        of_layers = f"-ngl {n_layers + 1 - self.layers}"
        if not self.experts:
            return of_layers
        all_of_them = self.expert_layers >= n_layers
        return f"{of_layers} {'--cpu-moe' if all_of_them else f'--n-cpu-moe {self.expert_layers}'}"


def _offload(value: object) -> Offload | None:
    if value is not None and not isinstance(value, Offload):
        raise refused(value, "an Offload")
    return value


ChosenOffload = Annotated[Offload | None, Conversion("an Offload", _offload)]
"""The annotation of a record's field."""
