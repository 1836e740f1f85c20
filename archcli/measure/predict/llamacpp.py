"""llama.cpp's speed: the share of a device's rates that whole runs reach, as constants of kernels.

Nobody publishes its kernels one by one, but many people its tokens a second. So a family of devices has one
set of constants, fitted on those runs: microseconds of a kernel, the fraction of the bandwidth, and that of
the peak by the form of the weights, in a prompt and for a generated token. The latter is of fp32's peak: a
matrix is multiplied with a vector, and unpacked before, outside of the matrix units. It joins the reading by
the 2-norm. Attention has the prompt's of weights that are not packed, as its cache is none.

Its products add up in fp16 or multiply int8: twice the rate of fp16 with fp32 sums on a GeForce.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from archcli.measure.predict.constants import Efficiency, Entry, Rates
from archcli.measure.predict.rank.rank_times import TimingDevice

FAMILIES = ("gpu", "metal", "cpu")
"""CUDA, HIP and Vulkan; Apple's GPUs; processors."""
KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
"""All kinds of kernels that memory bounds."""
COMPUTED = ("bf16", "fp16")
EXPONENT = 2.0
CHUNK = 512
"""Tokens of a prompt that it runs at once, its `--ubatch-size`."""
FP32 = "fp32"


def in_llamacpp(device: TimingDevice, speed: Mapping[str, Any], *, quantized: bool) -> TimingDevice:
    """The device with the constants of a family's entry, of weights in fewer bits or in 16 and more."""
    rates = device.clock.rates
    highest = peak(rates)
    rates = rates._replace(peaks={**rates.peaks, **dict.fromkeys(COMPUTED, highest)})
    form = "quantized" if quantized else "plain"
    prompt = _efficiency(speed, "prompt", speed["prompt"][form])
    ordinary = rates.peaks.get(FP32, highest) / highest
    token = _efficiency(speed, "generation", speed["generation"][form] * ordinary)
    return device._replace(
        clock=device.clock._replace(rates=rates, efficiency=token), prompt=prompt, by_layers=True
    )


def peak(rates: Rates) -> float:
    """FLOP/s of products in half precision: with sums in fp16 half of the int8 peak, where that is stated."""
    known = rates.peaks
    return max(*(known.get(name, 0.0) for name in ("bf16", "fp16", FP32)), known.get("int8", 0.0) / 2)


def chunked(tokens: float, devices: int) -> float:
    """The part of one device's time that a prompt takes on several with some of the layers each.

    Chunks of the prompt follow one another through the devices, as batches through a pipeline.
    """
    chunks = ceil(tokens / CHUNK)
    return (chunks + devices - 1) / (chunks * devices)


def _efficiency(speed: Mapping[str, Any], phase: str, compute: float) -> Efficiency:
    """The constants of a phase, as those of a device, with a fraction of the peak."""
    of_phase = speed[phase]
    origin = {key: of_phase[key] for key in ("rows", "error", "low", "high")}
    origin |= {key: speed[key] for key in ("table", "fitted")}
    bytes_and_calls = {"launch_us": speed["launch_us"], "memory": speed["memory"], **origin}
    product = {**bytes_and_calls, "compute": compute, "exponent": EXPONENT, "depth_ns": 0.0}
    attention = {**product, "compute": speed["prompt"]["plain"]}
    groups: dict[str, dict[str, Entry]] = {
        "matrix_products": dict.fromkeys((*COMPUTED, FP32), product),
        "attention": dict.fromkeys((*COMPUTED, FP32), attention),
        "memory_bound": dict.fromkeys(KINDS, bytes_and_calls),
    }
    return Efficiency(groups)
