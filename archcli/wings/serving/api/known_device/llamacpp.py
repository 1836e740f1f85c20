"""The device of --device as llama.cpp runs on it, for --engine llamacpp."""

from __future__ import annotations

from archcli.wings.serving.devices.engines import load_speeds
from archcli.wings.serving.memory.offload import HostMemory
from archcli.wings.serving.predict.answers.question import PredictedDevice
from archcli.wings.serving.predict.constants import Rates
from archcli.wings.serving.predict.engine_kernels.llamacpp import COMPUTED, FP32, LlamaCppConstants
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.times import KernelClock

CPU = "cpu"
CPU_FLOPS = 1e12
"""FLOP/s in fp32 of a desktop's processor, which its RAM bounds before: 16 cores of AVX2 at 2 GHz."""


def with_llamacpp(device: PredictedDevice, *, quantized: bool) -> PredictedDevice:
    """The device with llama.cpp's constants of its family."""
    clock = device.timing.clock
    form = "quantized" if quantized else "plain"
    runs = LlamaCppConstants.of(load_speeds("llamacpp")[device.memory.family], form, clock.rates)
    clock = clock._replace(rates=runs.rates, efficiency=runs.efficiency("decode", 1))
    return device._replace(timing=device.timing._replace(clock=clock, whole_runs=runs))


def with_ram(device: PredictedDevice, host: HostMemory, *, quantized: bool) -> PredictedDevice:
    """The device with the RAM beside it, in which a processor computes."""
    rates = Rates("RAM", dict.fromkeys((*COMPUTED, FP32), CPU_FLOPS), host.bandwidth)
    runs = LlamaCppConstants.of(load_speeds("llamacpp")[CPU], "quantized" if quantized else "plain", rates)
    clock = KernelClock(runs.rates, runs.efficiency("decode", 1))
    ram = TimingDevice(clock, device.timing.fabric, whole_runs=runs)
    return device._replace(timing=device.timing._replace(ram=ram))
