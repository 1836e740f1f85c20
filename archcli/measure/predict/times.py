"""Seconds of a kernel on a device: floor, expected and range, and what bounds it.

The floor is the bare roofline: max(F / P, bytes / B) of a matrix product, and bytes / B of any other kernel,
whose peak no datasheet states. An expected time and its range need constants; without them there is a floor
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from archcli.measure.predict.constants import Efficiency, MovementConstants, ProductConstants
from archcli.measure.predict.rates import WIDTHS, Rates
from archcli.measure.predict.terms import Bound, Terms
from archcli.recording.classes import TimeClass, is_product

PRODUCTS, ATTENTION, FRAMEWORK = "matrix_products", "attention", "framework"
ADDITIONS = ("add", "add_", "sub", "sub_")
GATHERS = ("embedding", "embedding_dense_backward", "index", "index_select", "gather", "index_copy")
ACTIVATIONS = ("silu", "gelu", "relu", "tanh", "sigmoid")
KINDS: Mapping[str, str] = {
    TimeClass.CONTRACTION: PRODUCTS,
    TimeClass.FUSED_ATTENTION: ATTENTION,
    TimeClass.NORMALIZATION: "normalization",
    TimeClass.MOVEMENT: "movement",
    TimeClass.FRAMEWORK: FRAMEWORK,
}
"""Kinds of kernels by class; any other is element-wise, as far as its name says no more."""


class TimedKernel(Protocol):
    """What a kernel costs: torch's name of it, its dtype, FLOPs, bytes read and written."""

    @property
    def name(self) -> str: ...
    @property
    def flops(self) -> float: ...
    @property
    def read(self) -> float: ...
    @property
    def written(self) -> float: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Seconds of a kernel, and what bounds it; without constants `expected`, `low` and `high` are None."""

    floor: float
    expected: float | None
    low: float | None
    high: float | None
    bound_by: Bound

    def scaled(self, times: float) -> KernelTime:
        """Seconds of so many of it."""
        expected, low, high = (
            None if seconds is None else times * seconds for seconds in (self.expected, self.low, self.high)
        )
        return KernelTime(times * self.floor, expected, low, high, self.bound_by)


def kind_of(op_class: str, name: str) -> str:
    """The kind of kernels whose constants a kernel has, by its class in a profile and torch's name.

    What else an operation runs beside its products, such as the positions that a window leaves out, is none.
    """
    if name in GATHERS:
        return "gather"
    if op_class in KINDS and (KINDS[op_class] != PRODUCTS or is_product(name)):
        return KINDS[op_class]
    if name in ADDITIONS:
        return "addition"
    return "gated_activation" if any(word in name for word in ACTIVATIONS) else "elementwise"


def depth_of(kernel: TimedKernel) -> float:
    """Length k of the sums of a matrix product: m n k products over m n elements written."""
    return kernel.flops * WIDTHS[kernel.dtype] / (2 * kernel.written)


OF_PRODUCTS: Mapping[str, Callable[[Efficiency, str], ProductConstants | None]] = {
    PRODUCTS: Efficiency.products,
    ATTENTION: Efficiency.attention,
}
"""The constants of kernels that compute may bound, by kind."""


@dataclass(frozen=True, slots=True)
class KernelClock:
    """Tells how long kernels take on a device, from its peaks and constants."""

    rates: Rates
    efficiency: Efficiency

    def time(self, kernel: TimedKernel, op_class: str) -> KernelTime:
        """Seconds of one run of a kernel of a class of `archcli.recording.classes`.

        Raises ArchError where the device states no peak of a product's dtype.
        """
        kind = kind_of(op_class, kernel.name)
        floor, constants = self._floor(kernel, kind), self._constants(kernel, kind)
        least = max(floor.compute, floor.memory)
        is_cached = self.rates.is_cached(kernel.read + kernel.written)
        if constants is None:
            return KernelTime(least, None, None, None, floor.bound_by(is_cached=is_cached))
        terms = constants.terms(self._of_memory(kernel, floor), depth_of(kernel) if kind == PRODUCTS else 0.0)
        expected, origin = terms.joined(constants.exponent), constants.origin
        bound_by = terms.bound_by(is_cached=is_cached)
        return KernelTime(least, expected, origin.low * expected, origin.high * expected, bound_by)

    def _floor(self, kernel: TimedKernel, kind: str) -> Terms:
        moved = kernel.read + kernel.written
        compute = kernel.flops / self.rates.peak(kernel.dtype) if kind in OF_PRODUCTS else 0.0
        return Terms(0.0, compute, moved / self.rates.memory(moved))

    def _of_memory(self, kernel: TimedKernel, floor: Terms) -> Terms:
        """The floor's terms at the rate of memory, of which constants are fractions."""
        return floor._replace(memory=(kernel.read + kernel.written) / self.rates.bandwidth)

    def _constants(self, kernel: TimedKernel, kind: str) -> ProductConstants | MovementConstants | None:
        if kind in OF_PRODUCTS:
            return OF_PRODUCTS[kind](self.efficiency, kernel.dtype)
        return self.efficiency.memory_bound(kind)
