"""Seconds on a device: floor, expected and range; of a kernel also what bounds it.

The floor is the bare roofline: max(F / P, bytes / B) of a matrix product, and bytes / B of any other kernel,
whose peak no datasheet states. An expected time and its range need constants; without them all are the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from archcli.wings.serving.launches.kernel import KernelCost
from archcli.wings.serving.predict.constants import (
    WIDTHS,
    Bound,
    Efficiency,
    KernelConstants,
    Origin,
    Rates,
    Terms,
)
from archcli.wings.serving.recorded.classes import TimeClass, is_product

if TYPE_CHECKING:
    from archcli.wings.serving.predict.engine_kernels.clock import EngineClock, Measured

GROUPED = "_grouped_mm"
"""The kernel of all routed experts; it reads the matrices of the experts that get a token."""
PRODUCTS, ATTENTION, NORMALIZATION = "matrix_products", "attention", "normalization"
OF_ADAPTERS = "adapters"
"""The kind and the name of products of several adapters, Punica's SGMV, whose constants nobody published."""
ADDITIONS = ("add", "add_", "sub", "sub_")
GATHERS = ("embedding", "embedding_dense_backward", "index", "index_select", "gather", "index_copy")
ACTIVATIONS = ("silu", "gelu", "relu", "tanh", "sigmoid")
KINDS: Mapping[str, str] = {
    TimeClass.CONTRACTION: PRODUCTS,
    TimeClass.FUSED_ATTENTION: ATTENTION,
    TimeClass.NORMALIZATION: NORMALIZATION,
    # in the devices' YAML the constants of additions: nothing nearer was measured
    TimeClass.MOVEMENT: "movement",
}
"""Kinds of kernels by class; `kind_of` finds the kinds of all others by name."""


MOST_UNKNOWN = 0.1
"""The largest part of an expected time that may be of kernels without constants."""
NO_TERMS = Terms(0.0, 0.0, 0.0)


class Seconds(NamedTuple):
    """Seconds at the limit of the device, as expected, and their range.

    Without constants (`is_calibrated` is False) the floor stands for all of them. `unknown` are expected
    seconds of kernels without constants.
    """

    floor: float = 0.0
    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0
    is_calibrated: bool = False
    unknown: float = 0.0

    @classmethod
    def at_limit(cls, floor: float, usual: float | None = None) -> Seconds:
        """Seconds without constants: the floor, or what it is with the usual bytes, in all fields."""
        usual = floor if usual is None else usual
        return cls(floor, usual, usual, usual, unknown=usual)

    @classmethod
    def by(cls, origin: Origin, floor: float, terms: Terms, exponent: float) -> Seconds:
        """Seconds of terms by constants of this origin."""
        expected = terms.joined(exponent)
        lowest = origin.lowest(terms, exponent)
        return cls(floor, expected, lowest, origin.high * expected, is_calibrated=True)

    @classmethod
    def within(cls, floor: float, expected: float, low: float, high: float) -> Seconds:
        """Seconds with a range, given as multiples of the expected ones."""
        return cls(floor, expected, low * expected, high * expected, is_calibrated=True)

    def plus(self, further: Seconds) -> Seconds:
        """The sum of both."""
        if further is NO_SECONDS:
            return self
        return Seconds(
            self.floor + further.floor,
            self.expected + further.expected,
            # ends add up as if all errors had the same sign: the range of a pass is rather too wide
            self.low + further.low,
            self.high + further.high,
            self.is_calibrated or further.is_calibrated,
            self.unknown + further.unknown,
        )

    def scaled(self, times: float) -> Seconds:
        """The seconds of `times` such passes."""
        if times == 1:
            return self
        floor, expected, low, high, is_calibrated, unknown = self
        ends = times * floor, times * expected, times * low, times * high
        return Seconds(*ends, is_calibrated, times * unknown)

    def overlapped(self, further: Seconds) -> Seconds:
        """The longer of two that run at once; unchanged without constants."""
        if not self.is_calibrated:
            return self
        return Seconds(
            max(self.floor, further.floor),
            max(self.expected, further.expected),
            max(self.low, further.low),
            max(self.high, further.high),
            is_calibrated=True,
            unknown=self.unknown if self.expected >= further.expected else further.unknown,
        )

    def beyond(self, further: Seconds) -> Seconds:
        """Each of the seconds minus those of `further`, at least 0."""
        return Seconds(
            max(0.0, self.floor - further.floor),
            max(0.0, self.expected - further.expected),
            max(0.0, self.low - further.low),
            max(0.0, self.high - further.high),
            self.is_calibrated,
            max(0.0, self.unknown - further.unknown),
        )

    def known(self) -> Seconds:
        """The seconds; the floor alone where kernels without constants take more than `MOST_UNKNOWN`."""
        is_known = self.unknown <= MOST_UNKNOWN * self.expected
        return self if is_known or not self.is_calibrated else Seconds.at_limit(self.floor)

    def record(self) -> dict[str, float | None]:
        """The figures by JSON's keys; None for all but the floor without constants."""
        expected = (self.expected, self.low, self.high) if self.is_calibrated else (None, None, None)
        return dict(zip(("floor", "expected", "low", "high"), (self.floor, *expected), strict=True))


NO_SECONDS = Seconds()
COPIES = 4
"""The most chunks of a prompt on several devices at once: GGML_SCHED_MAX_COPIES of llama.cpp."""


def chunked(slowest: Seconds, others: Seconds, chunks: int) -> Seconds:
    """Seconds that the slowest device waits in a prompt of `chunks` chunks, by times of the whole prompt.

    Chunks pass through the devices as through a pipeline: the slowest device waits before the first chunk and
    after the last. At most COPIES chunks are in flight, so that with more devices each round waits too.
    """
    rounds = (chunks - 1) // COPIES
    stalled = slowest.plus(others).beyond(slowest.scaled(COPIES)).scaled(rounds)
    return others.plus(stalled).scaled(1 / chunks)


class KernelTime(NamedTuple):
    """Seconds of one launch of a kernel, what bounds them, and the kind whose constants it has."""

    seconds: Seconds
    bound_by: Bound
    kind: str


def narrowed(kernel: KernelCost, dtype: str) -> KernelCost:
    """A matrix product that reads, computes and writes in a narrower dtype."""
    part = WIDTHS[dtype] / WIDTHS[kernel.dtype]
    # at least 1: a single element of 4 bits would round to 0 bytes
    read, written = round(part * kernel.read), max(1, round(part * kernel.written))
    return kernel._replace(read=read, written=written, dtype=dtype)


def kind_of(op_class: str, name: str) -> str:
    """The kind whose constants a kernel has, by its class in a profile and torch's name."""
    # the name of a call of the framework is its kind
    if op_class == TimeClass.FRAMEWORK:
        return name
    if name == OF_ADAPTERS:
        return name
    # by name before class: a lookup has its own constants, in any operation
    if name in GATHERS:
        return "gather"
    # an operation with products also launches copies and fills, which are no products
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
    OF_ADAPTERS: lambda efficiency, dtype: None,  # noqa: ARG005
}
"""The constants of kernels that compute may bound, by kind."""


class Roofline(NamedTuple):
    """The terms of a kernel by a device's rates alone, and the kind whose constants it has.

    bare: terms at peak and bandwidth; constants are fractions of these.
    floor: as bare, but bytes that fit into the cache at its rate: nothing is faster.
    least: the least value of each expected term.
    """

    kind: str
    bare: Terms
    floor: Terms
    least: Terms

    @property
    def limit(self) -> float:
        """The seconds of the roofline: the longer term of the floor."""
        return max(self.floor.compute, self.floor.memory)


def roofline(kernel: KernelCost, op_class: str, rates: Rates) -> Roofline:
    """The roofline of a kernel. Raises ArchError where the device states no peak of a product's dtype."""
    kind, moved = kind_of(op_class, kernel.name), kernel.least_bytes
    compute = kernel.flops / rates.peak(kernel.dtype) if kind in OF_PRODUCTS else 0.0
    bare = Terms(0.0, compute, kernel.bytes / rates.bandwidth)
    floor = Terms(0.0, compute, moved / rates.memory(moved))
    # a fitted fraction above 1 of the rate of memory comes from kernels whose bytes lie in the cache; beyond
    # it they are no faster than memory. Weights are only read, which may be faster than the copy that the
    # rates are of
    least = NO_TERMS if rates.cache is None or kind in OF_PRODUCTS else floor
    return Roofline(kind, bare, floor, least)


def _of_engine(known: Roofline, kernel: KernelCost, measured: Measured, rates: Rates) -> KernelTime:
    """The time of an engine's kernel, not below its floor."""
    floor = known.limit
    if kernel.call.cache == "fp8" and "fp8" in rates.peaks:
        # an engine may compute in the dtype of its cache
        floor = max(kernel.flops / rates.peak("fp8"), known.floor.memory)
    expected = max(floor, measured.seconds)
    low, high = max(floor, expected * measured.low), expected * measured.high
    bound: Bound = "launch" if measured.launches else known.floor.bound_by()
    return KernelTime(Seconds(floor, expected, low, high, is_calibrated=True), bound, known.kind)


class KernelClock(NamedTuple):
    """The seconds of kernels on a device, from its peaks and constants.

    `engine` has those of kernels that an engine runs in place of torch's.
    """

    rates: Rates
    efficiency: Efficiency
    engine: EngineClock | None = None

    def time(self, kernel: KernelCost, op_class: str) -> KernelTime:
        """Seconds of one run of a kernel of a class of `archcli.wings.serving.recorded.classes`.

        Raises ArchError where the device states no peak of a product's dtype.
        """
        known = roofline(kernel, op_class, self.rates)
        kind, bare, floor, least = known
        measured = self.engine and self.engine.kernel(kernel)
        if measured is not None:
            return _of_engine(known, kernel, measured, self.rates)
        constants, is_cached = self._constants(kernel, kind), self.rates.is_cached(kernel.bytes)
        if constants is None:
            usual = known.limit if kernel.least_read is None else max(bare.compute, bare.memory)
            products = self.efficiency.products(kernel.dtype) if kind == OF_ADAPTERS else None
            # small matrices: launched as a product is, whatever else it takes
            seconds = Seconds.at_limit(known.limit, usual + (products.launch if products else 0.0))
            return KernelTime(seconds, floor.bound_by(is_cached=is_cached), kind)
        origin, exponent = constants.origin, constants.exponent
        if op_class == TimeClass.FRAMEWORK:  # the host binds
            # a floor of 0: a device's peaks say nothing of its host
            terms = constants.terms(bare, 0.0)
            return KernelTime(Seconds.by(origin, 0.0, terms, exponent), "launch", kind)
        depth = depth_of(kernel) if kind == PRODUCTS and kernel.written else 0.0
        terms = constants.terms(bare, depth)
        terms = terms if least is NO_TERMS else terms.at_least(least)
        seconds = Seconds.by(origin, known.limit, terms, exponent)
        return KernelTime(seconds, terms.bound_by(is_cached=is_cached), kind)

    def _constants(self, kernel: KernelCost, kind: str) -> KernelConstants | None:
        if kind in OF_PRODUCTS:
            of_dtype = Efficiency.experts if kernel.name == GROUPED else OF_PRODUCTS[kind]
            return of_dtype(self.efficiency, kernel.dtype)
        return self.efficiency.memory_bound(kind)
