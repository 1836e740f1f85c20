"""Seconds on a device: floor, expected and range; of a kernel also what bounds it.

The floor is the bare roofline: max(F / P, bytes / B) of a matrix product, and bytes / B of any other kernel,
whose peak no datasheet states. An expected time and its range need constants; without them all are the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from archcli.launches.kernel import KernelCost
from archcli.measure.predict.constants import (
    WIDTHS,
    Bound,
    Efficiency,
    KernelConstants,
    Rates,
    Terms,
)
from archcli.recording.classes import TimeClass, is_product

PRODUCTS, ATTENTION = "matrix_products", "attention"
ADDITIONS = ("add", "add_", "sub", "sub_")
GATHERS = ("embedding", "embedding_dense_backward", "index", "index_select", "gather", "index_copy")
ACTIVATIONS = ("silu", "gelu", "relu", "tanh", "sigmoid")
KINDS: Mapping[str, str] = {
    TimeClass.CONTRACTION: PRODUCTS,
    TimeClass.FUSED_ATTENTION: ATTENTION,
    TimeClass.NORMALIZATION: "normalization",
    # in the devices' YAML the constants of additions: nothing nearer was measured
    TimeClass.MOVEMENT: "movement",
}
"""Kinds of kernels by class; any other is element-wise, as far as its name says no more."""


NO_TERMS = Terms(0.0, 0.0, 0.0)


class Seconds(NamedTuple):
    """Seconds at the limit of the device, as expected, and the range; they add up.

    Without constants (`is_calibrated` is False) the floor stands for all of them.
    """

    floor: float = 0.0
    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0
    is_calibrated: bool = False

    @classmethod
    def at_limit(cls, floor: float) -> Seconds:
        """Seconds of what has no constants."""
        return cls(floor, floor, floor, floor)

    @classmethod
    def within(cls, floor: float, expected: float, low: float, high: float) -> Seconds:
        """Seconds whose range is given as shares of the expected ones."""
        return cls(floor, expected, low * expected, high * expected, is_calibrated=True)

    def plus(self, other: Seconds) -> Seconds:
        """Both, one after the other."""
        return Seconds(
            self.floor + other.floor,
            self.expected + other.expected,
            # as if all kernels erred the same way: the range of a pass is wide rather than narrow
            self.low + other.low,
            self.high + other.high,
            self.is_calibrated or other.is_calibrated,
        )

    def scaled(self, times: float) -> Seconds:
        """So many of it."""
        floor, expected, low, high, is_calibrated = self
        return Seconds(times * floor, times * expected, times * low, times * high, is_calibrated)

    def at_least_within(self, low: float, high: float) -> Seconds:
        """The same with a range that holds these shares of the expected time."""
        return self._replace(
            low=min(self.low, low * self.expected), high=max(self.high, high * self.expected)
        )

    def record(self) -> dict[str, float | None]:
        """The figures by JSON's keys; None for what needs constants that are not known."""
        expected = (self.expected, self.low, self.high) if self.is_calibrated else (None, None, None)
        return dict(zip(("floor", "expected", "low", "high"), (self.floor, *expected), strict=True))


class KernelTime(NamedTuple):
    """Seconds of one launch of a kernel, what bounds them, and the kind whose constants they are by."""

    seconds: Seconds
    bound_by: Bound
    kind: str


def kind_of(op_class: str, name: str) -> str:
    """The kind of kernels whose constants a kernel has, by its class in a profile and torch's name.

    What else an operation runs beside its products, such as the positions that a window leaves out, is none.
    What the framework does for a kernel has its kind as name.
    """
    if op_class == TimeClass.FRAMEWORK:
        return name
    # before the class: a lookup has constants of its own, whatever operation makes it
    if name in GATHERS:
        return "gather"
    # an operation of products launches copies and fills as well, which are no products
    if op_class in KINDS and (KINDS[op_class] != PRODUCTS or is_product(name)):
        return KINDS[op_class]
    if name in ADDITIONS:
        return "addition"
    return "gated_activation" if any(word in name for word in ACTIVATIONS) else "elementwise"


def depth_of(kernel: KernelCost) -> float:
    """Length k of the sums of a matrix product: m n k products over m n elements written."""
    return kernel.flops * WIDTHS[kernel.dtype] / (2 * kernel.written)


OF_PRODUCTS: Mapping[str, Callable[[Efficiency, str], KernelConstants | None]] = {
    PRODUCTS: Efficiency.products,
    ATTENTION: Efficiency.attention,
}
"""The constants of kernels that compute may bound, by kind."""


class Roofline(NamedTuple):
    """The terms of a kernel by a device's rates alone, and the kind whose constants it has.

    `bare` is at the peak and the rate of memory, of which constants are fractions. `floor` is the same with
    bytes that fit into the cache at its rate: nothing is faster. No expected term is below `least`.
    """

    kind: str
    bare: Terms
    floor: Terms
    least: Terms

    @property
    def limit(self) -> float:
        """Seconds that nothing is faster than."""
        return max(self.floor.compute, self.floor.memory)


def roofline(kernel: KernelCost, op_class: str, rates: Rates) -> Roofline:
    """The roofline of a kernel. Raises ArchError where the device states no peak of a product's dtype."""
    kind, moved = kind_of(op_class, kernel.name), kernel.bytes
    compute = kernel.flops / rates.peak(kernel.dtype) if kind in OF_PRODUCTS else 0.0
    bare = Terms(0.0, compute, moved / rates.bandwidth)
    floor = bare._replace(memory=moved / rates.memory(moved))
    # a fraction above 1 of the rate of memory is that of kernels whose bytes lie in the cache; beyond it they
    # are no faster than memory. Weights are only read, which may be faster than the copy that rates are of
    least = NO_TERMS if rates.cache is None or kind in OF_PRODUCTS else floor
    return Roofline(kind, bare, floor, least)


class KernelClock(NamedTuple):
    """Tells how long kernels take on a device, from its peaks and constants."""

    rates: Rates
    efficiency: Efficiency

    def time(self, kernel: KernelCost, op_class: str) -> KernelTime:
        """Seconds of one run of a kernel of a class of `archcli.recording.classes`.

        Raises ArchError where the device states no peak of a product's dtype.
        """
        known = roofline(kernel, op_class, self.rates)
        kind, bare, floor, least = known
        constants, is_cached = self._constants(kernel, kind), self.rates.is_cached(kernel.bytes)
        if constants is None:
            return KernelTime(Seconds.at_limit(known.limit), floor.bound_by(is_cached=is_cached), kind)
        low, high = constants.origin.low, constants.origin.high
        if op_class == TimeClass.FRAMEWORK:  # the host binds
            expected = constants.terms(bare, 0.0).joined(constants.exponent)
            # a floor of 0: a device's peaks say nothing of its host
            return KernelTime(Seconds.within(0.0, expected, low, high), "launch", kind)
        depth = depth_of(kernel) if kind == PRODUCTS else 0.0
        terms = constants.terms(bare, depth).at_least(least)
        seconds = Seconds.within(known.limit, terms.joined(constants.exponent), low, high)
        return KernelTime(seconds, terms.bound_by(is_cached=is_cached), kind)

    def _constants(self, kernel: KernelCost, kind: str) -> KernelConstants | None:
        if kind in OF_PRODUCTS:
            return OF_PRODUCTS[kind](self.efficiency, kernel.dtype)
        return self.efficiency.memory_bound(kind)
