"""The speed of engines whose kernels nobody times: constants fitted on published tokens a second.

llama.cpp on all devices, MLX on Macs. Each family of devices (`families` of engines/speeds/ENGINE.yaml) has
one set of constants: launch time of a kernel in microseconds, fraction of the bandwidth, and fraction of the
peak, the last for quantized and plain weights, in a prompt and in generation, and for experts.

- Generation multiplies a matrix with a vector outside of the matrix units, so its fraction is of fp32's peak.
  Its time and that of reading the weights are joined by the 2-norm.
- Up to 8 vectors are multiplied one by one, each as slow as one. From then on time stays that of 8 vectors
  until the matrix units would take longer.
- Products of a prompt's experts reach `experts` times the fraction of other products.
- Products add up in fp16 or multiply int8: on a GeForce twice the rate of fp16 with fp32 sums.

The range is that of a kind of question, such as `several mixture`: what was measured over what is expected
while the whole device was held out; `slower` is its factor on the time. `devices` were measured often: each
has a factor of its own, too, and the narrower range of its own models, `near_low` to `near_high`. Several
sequences take no less than one: reading the weights has the low end of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.modules.spec.request import Request
from archcli.wings.serving.predict.constants import Efficiency, Entry, Rates

KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
"""All kinds of memory-bound kernels."""
COMPUTED = ("bf16", "fp16")
"""Dtypes of products that `peak` gives a rate."""
EXPONENT = 2.0
"""2-norm: time is sqrt(compute² + memory²)."""
VECTORS = 8
"""The most vectors that llama.cpp multiplies with a matrix one by one, its MMVQ_MAX_BATCH_SIZE."""
FP32 = "fp32"
ONE, SEVERAL, PROMPT = "one", "several", "prompt"
"""One decoded sequence, several at once, and a prompt."""


class WholeRuns(NamedTuple):
    """An engine's constants of a family of devices, on one device, for one model.

    speed: the family's entry.
    name: the device's.
    form: of the weights, `quantized` or `plain`.
    of_experts: `mixture` or `dense`.
    rates: the device's peaks and bandwidth.
    """

    speed: Mapping[str, Any]
    name: str
    form: str
    of_experts: str
    rates: Rates

    @classmethod
    def of(
        cls, speed: Mapping[str, Any], name: str, rates: Rates, *, quantized: bool, mixture: bool
    ) -> WholeRuns:
        """The constants on a device with these rates of its datasheet."""
        peaks = {**rates.peaks, **dict.fromkeys(COMPUTED, peak(rates))}
        form, experts = "quantized" if quantized else "plain", "mixture" if mixture else "dense"
        return cls(speed, name, form, experts, rates._replace(peaks=peaks))

    def of_pass(self, request: Request) -> Efficiency:
        """The constants of a pass."""
        # drafted tokens are few vectors, which are multiplied as those of several sequences are
        decodes = request.phase == "decode" or request.logits == "all"
        vectors = int(request.batch_size) * (1 if request.phase == "decode" else int(request.seq_len))
        return self.efficiency((ONE if vectors == 1 else SEVERAL) if decodes else PROMPT, vectors)

    def efficiency(self, load: str, vectors: int) -> Efficiency:
        """The constants of a pass as a device's `Efficiency`; `vectors` are multiplied with each matrix.

        It is empty where nothing of its kind was measured.
        """
        origin = self._origin(load)
        if origin is None:
            return Efficiency({})
        exponents = {"exponent": EXPONENT, "depth_ns": 0.0}
        dtypes = [dtype for dtype in (*COMPUTED, FP32) if dtype in self.rates.peaks]
        slower = self._slower(load)
        computing = {dtype: self._compute(dtype, vectors) for dtype in dtypes}
        share = self.speed["experts"] if load == PROMPT else 1.0
        products: dict[str, Entry] = {
            dtype: {**origin, **exponents, "compute": fraction / slower}
            for dtype, fraction in computing.items()
        }
        experts: dict[str, Entry] = {
            dtype: {**entry, "compute": share * entry["compute"]} for dtype, entry in products.items()
        }
        attention = {**origin, **exponents, "compute": self.speed["attention"] / slower}
        groups: dict[str, dict[str, Entry]] = {
            "matrix_products": products,
            "experts": experts,
            "attention": dict.fromkeys(dtypes, attention),
            "memory_bound": dict.fromkeys(KINDS, origin),
        }
        return Efficiency(groups)

    def _slower(self, load: str) -> float:
        """The factor on times: of the kind, and of this device where it was measured often."""
        kind = self.speed["kinds"].get(f"{load} {self.of_experts}", {})
        factors = self.speed.get("devices", {}).get(self.name, {})
        of_device = factors.get("prompt" if load == PROMPT else "generation", 1.0)
        return float(kind.get("slower", 1.0) * of_device)

    def _origin(self, load: str) -> Entry | None:
        """The constants of memory-bound kernels, with the errors and the range of a kind of question."""
        kind = self.speed["kinds"].get(f"{load} {self.of_experts}")
        if kind is None:
            return None
        slower, is_known = self._slower(load), self.name in self.speed.get("devices", {})
        ends = ("near_low", "near_high") if is_known and "near_low" in kind else ("low", "high")
        # what one sequence takes to read the weights, several do not take less
        alone = self._origin(ONE) if load == SEVERAL else None
        of_one = {"memory_low": alone["low"] * self._slower(ONE) / slower} if alone else {}
        return {
            "launch_us": self.speed["launch_us"] * slower,
            "memory": self.speed["memory"] / slower,
            "low": kind[ends[0]],
            "high": kind[ends[1]],
            **of_one,
            **{key: kind[key] for key in ("rows", "error")},
            **{key: self.speed[key] for key in ("table", "fitted")},
        }

    def _compute(self, dtype: str, vectors: int) -> float:
        """The fraction of a dtype's peak that products reach with so many vectors."""
        peaks = self.rates.peaks
        most = float(self.speed["prompt"][self.form])
        # products of one vector run outside of the matrix units: their fraction is of fp32's peak
        outside = peaks.get(FP32, peaks[dtype]) / peaks[dtype]
        one_by_one = self.speed["generation"][self.form] * outside
        # 16 vectors take the time of 8, at twice the FLOP/s, until the matrix units are slower
        return float(min(most, one_by_one * max(1.0, vectors / VECTORS)))


def peak(rates: Rates) -> float:
    """FLOP/s of products in half precision; half of the int8 peak (sums in fp16) where that is more."""
    peaks = rates.peaks
    return max(*(peaks.get(name, 0.0) for name in ("bf16", "fp16", FP32)), peaks.get("int8", 0.0) / 2)
