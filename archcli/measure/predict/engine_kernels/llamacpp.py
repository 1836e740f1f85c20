"""llama.cpp's speed: the share of a device's rates that whole runs reach, as constants of kernels.

Nobody publishes its kernels one by one, but many people its tokens a second. So a family of devices has one
set of constants, fitted on those runs: microseconds of a kernel, the fraction of the bandwidth, and that of
the peak by the form of the weights, in a prompt and for a generated token. The latter is of fp32's peak: a
matrix is multiplied with a vector, and unpacked before, outside of the matrix units. It joins the reading by
the 2-norm. Up to 8 vectors each take as long as one, and no more of them longer than 8 do, until the matrix
units take longest. Attention has the prompt's fraction of weights that are not packed, as its cache is none.

Its products add up in fp16 or multiply int8: twice the rate of fp16 with fp32 sums on a GeForce.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.measure.predict.constants import Efficiency, Entry, Rates
from archcli.modules.spec.request import Request

FAMILIES = ("gpu", "metal", "cpu")
"""CUDA, HIP and Vulkan; Apple's GPUs; processors."""
KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
"""All kinds of kernels that memory bounds."""
COMPUTED = ("bf16", "fp16")
EXPONENT = 2.0
VECTORS = 8
"""The most vectors that it multiplies with a matrix one by one, its MMVQ_MAX_BATCH_SIZE."""
FP32 = "fp32"


class WholeRuns(NamedTuple):
    """A family's entry of the YAML, the form of the weights (quantized, plain), and a device's rates."""

    speed: Mapping[str, Any]
    form: str
    rates: Rates

    @classmethod
    def of(cls, speed: Mapping[str, Any], form: str, rates: Rates) -> WholeRuns:
        """The constants on a device of these datasheet rates."""
        peaks = {**rates.peaks, **dict.fromkeys(COMPUTED, peak(rates))}
        return cls(speed, form, rates._replace(peaks=peaks))

    def of_pass(self, request: Request) -> Efficiency:
        """The constants of a pass."""
        tokens = 1 if request.phase == "decode" else int(request.seq_len)
        return self.efficiency(request.phase, int(request.batch_size) * tokens)

    def efficiency(self, phase: str, vectors: int) -> Efficiency:
        """The constants of a phase, as those of a device, with so many vectors for each matrix."""
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
        """The fraction of a dtype's peak that products reach."""
        peaks = self.rates.peaks
        ordinary = peaks.get(FP32, peaks[dtype]) / peaks[dtype]
        one_by_one = self.speed["generation"][self.form] * ordinary
        return float(min(self.speed["prompt"][self.form], one_by_one * max(1.0, vectors / VECTORS)))


def peak(rates: Rates) -> float:
    """FLOP/s of products in half precision: with sums in fp16 half of the int8 peak, where that is stated."""
    known = rates.peaks
    return max(*(known.get(name, 0.0) for name in ("bf16", "fp16", FP32)), known.get("int8", 0.0) / 2)
