"""Options of an offload: the part of a model in RAM, and the RAM."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, get_args

from archcli.api.asking.options import Size
from archcli.api.asking.question import Option
from archcli.errors import ArchError, either
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE
from archcli.modules import Model
from archcli.modules.models.layers import layer_count
from archcli.modules.spec.arguments import memory_bytes
from archcli.wings.serving.memory.offload import HostMemory, Offload, Part

if TYPE_CHECKING:
    from archcli.modules.spec.arguments import EngineName
    from archcli.wings.serving.memory.answers.question import MemoryQuestion
    from archcli.wings.serving.memory.plan import DeviceMemory

LEAST_RATE = 10**8
"""Bytes a second; a lower rate is a mistake in its unit."""
WHAT = re.compile(r"(layers|experts)(?::(\d{1,6}))?", re.ASCII)


OffloadOption = Annotated[
    str | None,
    Option(
        "Leave in RAM, with llama.cpp: layers:N, experts, experts:N, or layers:N,experts, of the first N "
        "layers; auto the fewest that do. In training: optimizer, parameters, activations, or all.",
        metavar="WHAT",
        completes="offloads",
    ),
]
Ram = Annotated[
    Size,
    Option(
        "With --offload: its RAM, in training a node's. "
        "[default: an instance's, else 64GiB, in training none]",
        metavar="SIZE",
        reads="text",
    ),
]
RamBandwidth = Annotated[
    Size,
    Option(
        "With --offload: the rate of RAM by its datasheet. [default: 80GB/s]",
        metavar="RATE",
        reads="text",
        rare=True,
    ),
]
BusBandwidth = Annotated[
    Size,
    Option(
        "With --offload: the rate between RAM and device. [default: 25GB/s]",
        metavar="RATE",
        reads="text",
        rare=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OffloadOptions:
    """Options of an offload."""

    offload: OffloadOption = None
    ram: Ram = None
    ram_bandwidth: RamBandwidth = None
    bus_bandwidth: BusBandwidth = None

    def engine_in(self, phase: str | None, engine: EngineName | None) -> EngineName | None:
        """The engine of a pass: llama.cpp alone leaves a part of a model in RAM."""
        return "llamacpp" if engine is None and self.offload is not None and phase in CACHING else engine

    def host(self, usual: HostMemory = HostMemory()) -> HostMemory:  # noqa: B008  # immutable
        """The RAM. Raises ArchError for an invalid size or rate, and for several adapters."""
        if vars(self).get("adapters"):
            raise ArchError("what --offload leaves in RAM of --adapters is unknown", "leave one of them out")
        return HostMemory(
            self._usual_ram(usual) if self.ram is None else memory_bytes(self.ram),
            usual.bandwidth if self.ram_bandwidth is None else _rate("ram_bandwidth", self.ram_bandwidth),
            usual.bus if self.bus_bandwidth is None else _rate("bus_bandwidth", self.bus_bandwidth),
        )

    def check_rates(self, device: DeviceMemory) -> None:
        """Raise ArchError where the usual rates, a desktop's, would be taken for a server's."""
        if device.of_servers and None in {self.ram_bandwidth, self.bus_bandwidth}:
            what = f"the rates of RAM and bus beside {device.name} are not stated: those of servers differ"
            raise ArchError(what, "--ram-bandwidth 400GB/s --bus-bandwidth 50GB/s, by their datasheets")

    def _usual_ram(self, usual: HostMemory) -> int:
        """The RAM of the instance of a cloud that the device's name says; else what is usual."""
        from archcli.wings.serving.devices.instances import ram_of  # reads files of devices

        return ram_of(vars(self).get("device")) or usual.bytes

    def with_offload(self, question: MemoryQuestion) -> MemoryQuestion:
        """The question with what is asked to be in RAM; unchanged where nothing is.

        Raises ArchError for another engine, for what the model does not have, and for too little RAM.
        """
        if self.offload is None:
            changed = [
                name for name in ("ram", "ram_bandwidth", "bus_bandwidth") if getattr(self, name) is not None
            ]
            if changed:
                option = f"--{changed[0].replace('_', '-')}"
                raise ArchError(f"{option} is of --offload, which is left out", "--offload auto")
            return question
        _check_device(question.device)
        if question.settings.phase == "train":
            # a node's RAM is as large as it is bought: none is usual
            offload = Offload(host=self.host(HostMemory(bytes=0)), parts=_parts(self.offload))
            return replace(question, settings=replace(question.settings, offload=offload))
        from archcli.wings.serving.memory.answers import offloading  # asked for by name

        _check_engine(question)
        if self.offload == "auto":
            offload = offloading.fewest(question, self.host())
        else:
            offload = self._read(question.model)
        with_it = replace(question, settings=replace(question.settings, offload=offload))
        offloading.check_ram(with_it)
        return with_it

    def check_offload(self, device: DeviceMemory | None, model: Model | None = None) -> None:
        """Raise ArchError for an offload that no engine, device or model has, whether or not it is needed."""
        if self.offload is None:
            return
        _check_device(device)
        if self.offload != "auto":
            _numbers(self.offload) if model is None else self._read(model)

    def _read(self, model: Model) -> Offload:
        """An offload from a text other than `auto`: layers, experts, or both."""
        from archcli.wings.serving.memory.answers import offloading  # asked for by name

        numbers = _numbers(self.offload or "")
        experts = numbers.get("experts", "0")
        of_experts = layer_count(model) if experts is None else int(experts)
        offload = Offload(int(numbers.get("layers") or 0), of_experts, self.host())
        offloading.check_offload(model, offload)
        return offload


def _rate(name: str, value: str | int) -> float:
    """Bytes a second of a text such as 80GB/s, or of a number of bytes."""
    rate = memory_bytes(value.strip().removesuffix("/s") if isinstance(value, str) else value)
    if rate < LEAST_RATE:
        option = f"--{name.replace('_', '-')}"
        raise ArchError(f"{option} {value} is less than 0.1 GB/s", f"{option} 80GB/s")
    return float(rate)


def _parts(text: str) -> tuple[Part, ...]:
    """The parts of a training step that a text names. Raises ArchError for any other."""
    named = [part.strip() for part in text.split(",")]
    known = get_args(Part)
    unknown = next((name for name in named if name not in {*known, "all"}), None)
    if unknown is not None:
        what = f"--offload {unknown[:40]!r} is no part of a training step"
        raise ArchError(what, f"{either(known)}, several of them, or all; or --phase serve for llama.cpp's")
    return tuple(part for part in known if part in named or "all" in named)


def _numbers(text: str) -> dict[str, str | None]:
    """{"layers": "20", "experts": None} of layers:20,experts; ArchError for a text that is no offload."""
    if not {*text.split(",")}.isdisjoint({*get_args(Part), "all"}):
        what = f"--offload {text[:40]} is of training, and llama.cpp leaves layers or experts in RAM"
        raise ArchError(what, "--phase train; or layers:20, experts or auto")
    matches = [WHAT.fullmatch(part) for part in text.split(",")]
    numbers: dict[str, str | None] = {match[1]: match[2] for match in matches if match is not None}
    if len(numbers) < len(matches) or numbers.get("layers", "") is None:
        what = f"--offload {text[:40]!r} is no offload"
        raise ArchError(what, "layers:20, experts, experts:20, layers:20,experts or auto")
    return numbers


def _check_engine(question: MemoryQuestion) -> None:
    """Raise ArchError unless llama.cpp runs the model on a device beside RAM."""
    engine = question.settings.engine or NO_ENGINE
    if engine.name == "none":
        what = f"--offload is of llama.cpp, and the phase is {question.settings.phase} without it"
        raise ArchError(what, "--phase serve and --engine llamacpp, or leave --offload out")
    if engine.name != "llamacpp":
        what = f"--offload is of llama.cpp, and the engine is {engine.name}"
        raise ArchError(what, "--engine llamacpp, or leave --offload out")


def _check_device(device: DeviceMemory | None) -> None:
    """Raise ArchError unless equal devices have memory of their own beside RAM."""
    if device is not None and device.unlike:
        raise ArchError(f"--offload is of equal devices, and {device.name} are unlike", "leave --offload out")
    if device is not None and device.has_ram_alone:
        raise ArchError(
            f"--offload leaves a part in RAM, and {device.name} has no other memory", "leave --offload out"
        )
