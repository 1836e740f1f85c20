"""Engines: what an inference engine takes beside its kernels, and its matrix products in fp8.

Matrix products in fp8 with scales that are known before: their constants. Measured fp8 products quantize
their inputs first, in kernels of their own. An engine with static scales does so where the inputs are made;
what is left is a product at fp8's peak and of one byte a number. It is expected to reach what products of
bf16 reach of theirs, and at worst takes as long as if it quantized.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from archcli.measure.predict.constants import Efficiency, Entry
from archcli.measure.predict.prediction import Prediction
from archcli.measure.predict.rank.rank_times import TimingDevice
from archcli.measure.predict.times import KernelTime

EngineName = Literal["none", "vllm", "trtllm"]


class Engine(NamedTuple):
    """The tokens a second of an engine over those of its kernels alone: expected, and the range.

    `source` says where the factor is from; it is of live servers, whose batches change from step to step.
    """

    label: str
    speed: float
    low: float
    high: float
    source: str


ENGINES: Mapping[EngineName, Engine] = {
    "none": Engine("kernels alone", 1.0, 1.0, 1.0, "kernels one after the other, and nothing else"),
    # of live servers, whose measurements are not kept with the others: a rule of thumb
    "vllm": Engine("vLLM", 0.78, 0.78, 1.0, "live serving: about 0.78 of what its kernels allow"),
    "trtllm": Engine(
        "TensorRT-LLM",
        1.0,
        0.88,
        1.0,
        "live serving: 0.88 to 1.00 of what its kernels allow; a batch of fixed size has no scheduler",
    ),
}
"""Factors by name. A server that was measured against its kernels would give others."""


def with_engine(time: KernelTime, engine: Engine) -> KernelTime:
    """The seconds of an engine; the floor stays that of the kernels."""
    if time.expected is None or time.low is None or time.high is None:
        return time
    # the fastest engine has the shortest time
    seconds = time.expected / engine.speed, time.low / engine.high, time.high / engine.low
    return KernelTime(time.floor, *seconds, time.bound_by)


FP8, PRODUCTS = "fp8", "matrix_products"


def in_fp8(device: TimingDevice) -> TimingDevice:
    """The device with constants of products in fp8; as it is where it has none in bf16."""
    groups = device.clock.efficiency.groups
    products = groups.get(PRODUCTS, {})
    if "bf16" not in products:
        return device
    entries = {**products, FP8: _static(products["bf16"], products.get(FP8))}
    efficiency = Efficiency({**groups, PRODUCTS: entries})
    return device._replace(clock=device.clock._replace(efficiency=efficiency))


def _static(bf16: Entry, measured: Entry | None) -> Entry:
    """The constants of bf16 with the range up to what was measured with quantization in it."""
    if measured is None:
        return bf16
    return {**bf16, "error": measured["error"], "high": max(bf16["high"], measured["high"])}


def at_peak_of_fp8(prediction: Prediction, device: TimingDevice) -> Prediction:
    """The prediction whose FLOPs are held against the peak of fp8. Raises ArchError where none is stated."""
    return prediction._replace(peak_flops=device.clock.rates.peak(FP8) * prediction.devices)
