"""llama.cpp's speed: constants of its kernels, fitted on published tokens a second.

Nobody publishes times of its kernels. Each family of devices (`FAMILIES`) has one set of constants: launch
time of a kernel in microseconds, fraction of the bandwidth, and fraction of the peak, the last for quantized
and plain weights, in a prompt and in generation.

- Generation multiplies a matrix with a vector outside of the matrix units, so its fraction is of fp32's peak.
  Its time and that of reading the weights are joined by the 2-norm.
- Up to 8 vectors are multiplied one by one, each as slow as one. From then on time stays that of 8 vectors
  until the matrix units would take longer.
- Attention has the prompt's fraction for plain weights: its cache is not quantized.
- Products add up in fp16 or multiply int8: on a GeForce twice the rate of fp16 with fp32 sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.modules.spec.request import Request
from archcli.wings.serving.predict.constants import Efficiency, Entry, Rates

FAMILIES = ("gpu", "metal", "cpu")
"""CUDA, HIP and Vulkan; Apple's GPUs; processors."""
KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
"""All kinds of memory-bound kernels."""
COMPUTED = ("bf16", "fp16")
"""Dtypes of products that `peak` gives a rate."""
EXPONENT = 2.0
"""2-norm: time is sqrt(compute² + memory²)."""
VECTORS = 8
"""The most vectors that it multiplies with a matrix one by one, its MMVQ_MAX_BATCH_SIZE."""
FP32 = "fp32"


class LlamaCppConstants(NamedTuple):
    """llama.cpp's constants of a family of devices, on one device.

    speed: the family's entry of llamacpp.yaml.
    form: of the weights, `quantized` or `plain`.
    rates: the device's peaks and bandwidth.
    """

    speed: Mapping[str, Any]
    form: str
    rates: Rates

    @classmethod
    def of(cls, speed: Mapping[str, Any], form: str, rates: Rates) -> LlamaCppConstants:
        """The constants on a device with these rates of its datasheet."""
        peaks = {**rates.peaks, **dict.fromkeys(COMPUTED, peak(rates))}
        return cls(speed, form, rates._replace(peaks=peaks))

    def of_pass(self, request: Request) -> Efficiency:
        """The constants of a pass."""
        tokens = 1 if request.phase == "decode" else int(request.seq_len)
        return self.efficiency(request.phase, int(request.batch_size) * tokens)

    def efficiency(self, phase: str, vectors: int) -> Efficiency:
        """The constants of a phase as a device's `Efficiency`; `vectors` are multiplied with each matrix."""
        of_phase = self.speed["generation" if phase == "decode" else "prompt"]
        origin = {key: of_phase[key] for key in ("rows", "error", "low", "high")}
        origin |= {key: self.speed[key] for key in ("launch_us", "memory", "table", "fitted")}
        exponents = {"exponent": EXPONENT, "depth_ns": 0.0}
        dtypes = [dtype for dtype in (*COMPUTED, FP32) if dtype in self.rates.peaks]
        products: dict[str, Entry] = {
            dtype: {**origin, **exponents, "compute": self._compute(dtype, vectors)} for dtype in dtypes
        }
        attention = {**origin, **exponents, "compute": self.speed["prompt"]["plain"]}
        groups: dict[str, dict[str, Entry]] = {
            "matrix_products": products,
            "attention": dict.fromkeys(dtypes, attention),
            "memory_bound": dict.fromkeys(KINDS, origin),
        }
        return Efficiency(groups)

    def _compute(self, dtype: str, vectors: int) -> float:
        """The fraction of a dtype's peak that products reach with so many vectors."""
        peaks = self.rates.peaks
        # products of one vector run outside of the matrix units: their fraction is of fp32's peak
        outside = peaks.get(FP32, peaks[dtype]) / peaks[dtype]
        one_by_one = self.speed["generation"][self.form] * outside
        # 16 vectors take the time of 8, at twice the FLOP/s, until the matrix units are slower
        return float(min(self.speed["prompt"][self.form], one_by_one * max(1.0, vectors / VECTORS)))


def peak(rates: Rates) -> float:
    """FLOP/s of products in half precision; half of the int8 peak (sums in fp16) where that is more."""
    peaks = rates.peaks
    return max(*(peaks.get(name, 0.0) for name in ("bf16", "fp16", FP32)), peaks.get("int8", 0.0) / 2)
