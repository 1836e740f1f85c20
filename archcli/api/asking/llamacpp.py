"""The device of --device as llama.cpp runs on it, for --engine llamacpp."""

from __future__ import annotations

from archcli.load.devices.engines import load_speeds
from archcli.measure.predict.answers.question import PredictedDevice
from archcli.measure.predict.llamacpp import WholeRuns


def with_llamacpp(device: PredictedDevice, *, quantized: bool) -> PredictedDevice:
    """The device with llama.cpp's constants of its family."""
    clock = device.timing.clock
    form = "quantized" if quantized else "plain"
    runs = WholeRuns.of(load_speeds("llamacpp")[device.memory.family], form, clock.rates)
    clock = clock._replace(rates=runs.rates, efficiency=runs.efficiency("decode", 1))
    return device._replace(timing=device.timing._replace(clock=clock, whole_runs=runs))
