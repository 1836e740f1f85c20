"""Calibration: the rates and constants of a machine from profiles of it.

Matrix products, memory-bound kernels, fused attention, and the framework's time for a call of an operation.
Each is fitted to measured rows, and its error is that of sizes left out of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.wings.serving.predict.calibrate.fit import (
    SIZES_FOR_EXPONENT,
    Fitted,
    entry,
    fit,
    launch_start,
    of_attention,
    of_movements,
    of_products,
)
from archcli.wings.serving.predict.calibrate.samples import (
    MeasuredRun,
    RowSample,
    framework_sample,
    samples_of,
)
from archcli.wings.serving.predict.constants import (
    FRAMEWORK,
    MICRO,
    NANO,
    TRAINING_FRAMEWORK,
    Efficiency,
    KernelConstants,
    LastCache,
    Rates,
)
from archcli.wings.serving.predict.times import ATTENTION, PRODUCTS
from archcli.wings.serving.recorded.machine import Ceilings, cache_size

MEASURED_BY = "`archcli profile gpt2 --dtype {dtype} --device %s` measures it"


def local_rates(name: str, ceilings: Mapping[str, Ceilings], backend: Backend) -> Rates:
    """The rates of this machine from measured ceilings by dtype. Raises ArchError where there are none."""
    if not ceilings:
        hint = f"`archcli profile gpt2 --device {backend}` measures them (with --dtype bf16 those of bf16)"
        raise ArchError("local: the peaks of this machine are not measured yet", hint)
    peaks = {dtype: rates["gemm_flops_per_s"] for dtype, rates in ceilings.items()}
    bandwidth = max(rates["dram_bytes_per_s"] for rates in ceilings.values())
    size = cache_size() if backend == "cpu" else None
    cached = max(rates["cache_bytes_per_s"] for rates in ceilings.values())
    cache = None if size is None else LastCache(size, cached)
    return Rates(name, peaks, bandwidth, cache, MEASURED_BY % backend)


LEAST_SIZES = 3
KINDS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
"""Kinds of memory-bound kernels."""
MEMORY_BOUND = "memory_bound"
LABELS = {
    PRODUCTS: "matrix products",
    MEMORY_BOUND: "kernels that memory bounds",
    ATTENTION: "attention in one kernel",
    FRAMEWORK: "the framework",
}
Entries = Mapping[str, Mapping[str, Any]]


class CalibrationSource(NamedTuple):
    """The source of fitted constants: files, dtype, day of the fit, and the command that measures more."""

    table: str
    dtype: str
    date: str
    command: str


def calibrate(runs: Sequence[MeasuredRun], rates: Rates, source: CalibrationSource) -> Efficiency:
    """The constants of a machine of these rates. Raises ArchError for fewer than three sizes of a class."""
    samples = [sample for run in runs for sample in samples_of(run, rates)]
    of_kinds: dict[str, list[RowSample]] = {}
    for sample in samples:
        of_kinds.setdefault(sample.kind, []).append(sample)
    fused, products = of_kinds.pop(ATTENTION, []), of_kinds.pop(PRODUCTS, [])
    movements = [sample for of_kind in of_kinds.values() for sample in of_kind]
    _check(PRODUCTS, len(_sizes(products)), source)
    _check(MEMORY_BOUND, len(_sizes(movements)), source)
    if fused:
        _check(ATTENTION, len(_sizes(fused)), source)
    _check(FRAMEWORK, len({run.sizes for run in runs}), source)
    # products first: attention takes all but its fraction of the peak from them
    fitted = _products(products)
    groups: dict[str, Entries] = {
        PRODUCTS: {source.dtype: _product_entry(fitted, source)},
        MEMORY_BOUND: {**_movements(of_kinds, movements, source), **_frameworks(runs, rates, source)},
    }
    if fused:
        groups[ATTENTION] = {source.dtype: _attention(fused, fitted.constants, source)}
    return Efficiency(groups)


def _sizes(samples: Sequence[RowSample]) -> set[object]:
    return {sample.size for sample in samples}


def _check(name: str, number: int, source: CalibrationSource) -> None:
    if number < LEAST_SIZES:
        unit = "pass(es)" if name == FRAMEWORK else "size(s)"
        what = f"{source.table}: {number} {unit} of {LABELS[name]}, and {LEAST_SIZES} are needed"
        raise ArchError(what, f"measure others and give all files: {source.command}")


def _products(samples: Sequence[RowSample]) -> Fitted:
    # logarithms, as the fit searches them: constants stay above 0
    start = (launch_start(samples), log(0.8), log(0.8))
    # exp(0) above the least exponent, 1: the search begins at 2, which stays where sizes are few
    more = (0.0,) if len(_sizes(samples)) >= SIZES_FOR_EXPONENT else ()
    return fit(samples, (*start, *more), of_products)


def _product_entry(fitted: Fitted, source: CalibrationSource) -> dict[str, Any]:
    launch, depth, *fractions, _ = fitted.constants
    constants = {"launch_us": launch / MICRO, "depth_ns": depth / NANO}
    constants |= dict(zip(("compute", "memory", "exponent"), fractions, strict=True))
    return entry(constants, fitted.origin(source.table, source.date))


def _attention(
    samples: Sequence[RowSample], products: KernelConstants, source: CalibrationSource
) -> dict[str, Any]:
    fitted = fit(samples, (log(products.compute / 2),), of_attention(products))
    return entry({"compute": fitted.constants.compute}, fitted.origin(source.table, source.date))


def _movements(
    of_kinds: Mapping[str, Sequence[RowSample]], all_of_them: Sequence[RowSample], source: CalibrationSource
) -> Entries:
    """Constants by kind; a kind of fewer than three sizes has those of all kinds together."""
    together = _movement_entry(all_of_them, source)
    return {
        kind: _movement_entry(of_kinds[kind], source)
        if len(_sizes(of_kinds.get(kind, ()))) >= LEAST_SIZES
        else together
        for kind in KINDS
    }


def _movement_entry(samples: Sequence[RowSample], source: CalibrationSource) -> dict[str, Any]:
    fitted = fit(samples, (launch_start(samples), log(0.8)), of_movements)
    constants = {"launch_us": fitted.constants.launch / MICRO, "memory": fitted.constants.memory}
    return entry(constants, fitted.origin(source.table, source.date))


def _frameworks(runs: Sequence[MeasuredRun], rates: Rates, source: CalibrationSource) -> Entries:
    """Framework constants of inference and of training; of both together where one has too few passes."""
    every = [framework_sample(run, rates) for run in runs]
    entries: dict[str, Mapping[str, Any]] = {}
    for name in (FRAMEWORK, TRAINING_FRAMEWORK):
        alike = [sample for sample in every if sample.kind == name]
        entries[name] = _movement_entry(alike if len(_sizes(alike)) >= LEAST_SIZES else every, source)
    return entries
