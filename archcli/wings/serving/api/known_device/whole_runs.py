"""The device of --device as an engine runs on it whose constants are of whole runs: llama.cpp, MLX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from re import fullmatch

from archcli.modules import Model
from archcli.wings.serving.devices.budget import Budget
from archcli.wings.serving.devices.engines import load_speeds
from archcli.wings.serving.memory.answers.offloading import has_experts
from archcli.wings.serving.memory.offload import HostMemory
from archcli.wings.serving.predict.answers.question import PredictedDevice
from archcli.wings.serving.predict.constants import Rates
from archcli.wings.serving.predict.engine_kernels.whole_runs import COMPUTED, FP32, ONE, WholeRuns
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.times import KernelClock

CPU = {"kind": "cpu"}
CPU_FLOPS = 1e12
"""FLOP/s in fp32 of a desktop's processor, which its RAM bounds before: 16 cores of AVX2 at 2 GHz."""


def families_of(engine: str, device: Mapping[str, str]) -> Iterator[str]:
    """The families of a device by its kind, vendor and architecture, the narrowest first."""
    for name, wanted in load_speeds(engine)["families"].items():
        if all(fullmatch(pattern, device.get(key, "")) for key, pattern in wanted.items()):
            yield str(name)


def described(budget: Budget) -> Mapping[str, str]:
    """What families are told by."""
    vendor = "" if budget.datasheet is None else budget.datasheet.vendor
    return {"name": budget.name, "kind": budget.kind, "vendor": vendor, "architecture": budget.architecture}


def with_whole_runs(
    device: PredictedDevice, engine: str, budget: Budget, model: Model, chunk: int | None
) -> PredictedDevice:
    """The device with an engine's constants of its family; unchanged where none was measured.

    A prompt runs in chunks of so many tokens.
    """
    runs = _runs(engine, described(budget), budget.name, device.timing.clock.rates, model)
    if runs is None:
        return device
    clock = device.timing.clock._replace(rates=runs.rates, efficiency=runs.efficiency(ONE, 1))
    return device._replace(timing=device.timing._replace(clock=clock, whole_runs=runs, chunk=chunk))


def with_ram(device: PredictedDevice, host: HostMemory, model: Model) -> PredictedDevice:
    """The device with the RAM beside it, in which a processor computes."""
    rates = Rates("RAM", dict.fromkeys((*COMPUTED, FP32), CPU_FLOPS), host.bandwidth)
    runs = _runs("llamacpp", CPU, "", rates, model)
    if runs is None:
        return device
    clock = KernelClock(runs.rates, runs.efficiency(ONE, 1))
    ram = TimingDevice(clock, device.timing.fabric, whole_runs=runs)
    return device._replace(timing=device.timing._replace(ram=ram))


def _runs(engine: str, device: Mapping[str, str], name: str, rates: Rates, model: Model) -> WholeRuns | None:
    """The constants of the narrowest family that has any; None without one."""
    speeds, packed = load_speeds(engine)["speeds"], model.quantization is not None
    for family in families_of(engine, device):
        if family in speeds:
            return WholeRuns.of(speeds[family], name, rates, quantized=packed, mixture=has_experts(model))
    return None
