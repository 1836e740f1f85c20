"""The device of --device as llama.cpp runs on it, for --engine llamacpp."""

from __future__ import annotations

from archcli.load.devices.budget import read_budget
from archcli.load.devices.engines import load_speeds
from archcli.measure.predict.answers.question import PredictedDevice
from archcli.measure.predict.llamacpp import WholeRuns

APPLE, CPU = "Apple", "cpu"


def with_llamacpp(device: PredictedDevice, text: str, *, quantized: bool) -> PredictedDevice:
    """The device that `text` names, with llama.cpp's constants of its family."""
    clock = device.timing.clock
    form = "quantized" if quantized else "plain"
    runs = WholeRuns.of(load_speeds("llamacpp")[family(text)], form, clock.rates)
    clock = clock._replace(rates=runs.rates, efficiency=runs.efficiency("decode", 1))
    return device._replace(timing=device.timing._replace(clock=clock, whole_runs=runs))


def family(text: str) -> str:
    """The kind of backend that llama.cpp has for a device."""
    budget = read_budget(text)
    if budget is None or budget.kind == CPU:
        return "cpu"
    sheet = budget.datasheet
    return "metal" if sheet is not None and sheet.vendor == APPLE else "gpu"
