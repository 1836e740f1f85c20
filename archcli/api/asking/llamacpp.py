"""The device of --device as llama.cpp runs on it, for --engine llamacpp."""

from __future__ import annotations

from archcli.load.devices.budget import read_budget
from archcli.load.devices.engines import load_speed
from archcli.measure.predict.answers.question import PredictedDevice
from archcli.measure.predict.llamacpp import in_llamacpp

APPLE, CPU = "Apple", "cpu"


def with_llamacpp(device: PredictedDevice, text: str, *, quantized: bool) -> PredictedDevice:
    """The device that `text` names, with llama.cpp's constants of its family."""
    speed = load_speed("llamacpp")[family(text)]
    return device._replace(timing=in_llamacpp(device.timing, speed, quantized=quantized))


def family(text: str) -> str:
    """The kind of backend that llama.cpp has for a device."""
    budget = read_budget(text)
    if budget is None or budget.kind == CPU:
        return "cpu"
    sheet = budget.datasheet
    return "metal" if sheet is not None and sheet.vendor == APPLE else "gpu"
