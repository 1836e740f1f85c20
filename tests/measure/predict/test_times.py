"""Seconds of kernels: the roofline, what constants make of it, and what binds, worked out in the open."""

from typing import NamedTuple

import pytest

from archcli.errors import ArchError
from archcli.measure.predict.constants import Efficiency
from archcli.measure.predict.rates import LastCache, Rates
from archcli.measure.predict.times import KernelClock, kind_of


class Timed(NamedTuple):
    """A kernel as `KernelClock` reads it."""

    name: str
    op_class: str
    flops: float
    read: float
    written: float
    dtype: str = "bf16"


ORIGIN = {"error": 0.1, "low": 0.9, "high": 1.2, "rows": 100, "table": "a table", "fitted": "2026-11-23"}
PRODUCT = {"launch_us": 4, "depth_ns": 0.5, "compute": 0.8, "memory": 0.5, "exponent": 2, **ORIGIN}
EFFICIENCY = Efficiency(
    {
        "matrix_products": {"bf16": PRODUCT},
        "memory_bound": {
            "normalization": {"launch_us": 2, "memory": 0.25, **ORIGIN},
            "addition": {"launch_us": 1, "memory": 0.8, **ORIGIN},
        },
        "attention": {"bf16": {"compute": 0.2, **ORIGIN}},
        "communication": {
            "8": {"latency_us": 30, "bandwidth_gb_s": 350, **ORIGIN},
            "2": {"latency_us": 20, "bandwidth_gb_s": 300, **ORIGIN},
        },
    }
)
RATES = Rates.of("mine", {"bf16_tflops": 100, "bandwidth_gb_s": 1000})
CLOCK, FLOOR = KernelClock(RATES, EFFICIENCY), KernelClock(RATES, Efficiency({}))

M, N, K = 4096, 1024, 2048
PRODUCT_BYTES = (2 * (M * K + K * N), 2 * M * N)
MM = Timed("mm", "contraction", 2 * M * N * K, *PRODUCT_BYTES)


def test_a_matrix_product_is_launch_and_depth_and_the_norm_of_compute_and_memory():
    compute = 2 * M * N * K / (100e12 * 0.8)
    memory = sum(PRODUCT_BYTES) / (1000e9 * 0.5)
    expected = 4e-6 + 0.5e-9 * K + (compute**2 + memory**2) ** 0.5
    time = CLOCK.time(MM)
    assert time.floor == pytest.approx(2 * M * N * K / 100e12, rel=1e-12)
    assert time.expected == pytest.approx(expected, rel=1e-12)
    assert (time.low, time.high) == pytest.approx((0.9 * expected, 1.2 * expected), rel=1e-12)
    assert time.bound_by == "compute"


def test_the_depth_of_a_batch_of_products_is_that_of_one():
    batch = Timed("bmm", "contraction", 7 * MM.flops, 7 * MM.read, 7 * MM.written)
    deeper = 7 * (CLOCK.time(MM).expected - 4e-6 - 0.5e-9 * K)
    assert CLOCK.time(batch).expected == pytest.approx(4e-6 + 0.5e-9 * K + deeper, rel=1e-12)


def test_a_thin_product_is_bound_by_memory_and_a_tiny_one_by_its_launch():
    thin = Timed("mm", "contraction", 2 * N * N, 2 * (N * N + N), 2 * N)
    thin = thin._replace(flops=64 * thin.flops, read=64 * thin.read, written=64 * thin.written)
    assert CLOCK.time(thin).bound_by == FLOOR.time(thin).bound_by == "memory"
    tiny = Timed("mm", "contraction", 2 * 8 * 8 * 8, 2 * 2 * 64, 2 * 64)
    assert CLOCK.time(tiny).bound_by == "launch"


def test_kernels_that_memory_bounds_have_their_own_fractions():
    norm = Timed("native_layer_norm", "normalization", 7e6, 2e6, 2e6)
    assert CLOCK.time(norm).floor == pytest.approx(4e6 / 1000e9, rel=1e-12)
    assert CLOCK.time(norm).expected == pytest.approx(2e-6 + 4e6 / (1000e9 * 0.25), rel=1e-12)
    add = Timed("add", "elementwise", 1e6, 4e6, 2e6, "fp32")
    assert CLOCK.time(add).expected == pytest.approx(1e-6 + 6e6 / (1000e9 * 0.8), rel=1e-12)
    assert CLOCK.time(add).bound_by == "memory"


def test_attention_has_a_compute_fraction_of_its_own_and_no_loop_over_k():
    flash = Timed("_scaled_dot_product_flash_attention", "contraction", 1e12, 3e6, 1e6)
    compute, memory = 1e12 / (100e12 * 0.2), 4e6 / (1000e9 * 0.5)
    assert CLOCK.time(flash).expected == pytest.approx(4e-6 + (compute**2 + memory**2) ** 0.5, rel=1e-12)


KINDS = {
    ("addmm", "contraction"): "matrix_products",
    ("_scaled_dot_product_flash_attention", "contraction"): "attention",
    ("_scaled_dot_product_flash_attention_backward", "normalization"): "attention",
    ("add", "elementwise"): "addition",
    ("silu", "elementwise"): "gated_activation",
    ("gelu_backward", "elementwise"): "gated_activation",
    ("mul", "elementwise"): "elementwise",
    ("addcmul", "elementwise"): "elementwise",
    ("_softmax", "normalization"): "normalization",
    ("copy_", "movement"): "movement",
    ("topk", "routing"): "elementwise",
}


@pytest.mark.parametrize(("name", "op_class"), KINDS)
def test_kernels_are_told_apart_by_class_and_name(name, op_class):
    assert kind_of(Timed(name, op_class, 0, 1, 1)) == KINDS[name, op_class]


def test_without_constants_there_is_a_floor_alone():
    """No constants of any kind, none of this kind, and none of this dtype."""
    copy = Timed("copy_", "movement", 0, 1e6, 1e6)
    for clock, kernel in ((FLOOR, MM), (CLOCK, copy)):
        time = clock.time(kernel)
        assert time.floor > 0
        assert (time.expected, time.low, time.high) == (None, None, None)
        assert time.scaled(3).floor == 3 * time.floor
        assert time.scaled(3).expected is None


def test_fp16_has_the_peak_and_the_constants_of_bf16():
    half = MM._replace(dtype="fp16")
    assert CLOCK.time(half) == CLOCK.time(MM)


def test_a_dtype_without_a_peak_is_told():
    with pytest.raises(ArchError, match="device mine states no peak of fp8; it has peaks of bf16, fp16"):
        CLOCK.time(MM._replace(dtype="fp8"))
    with pytest.raises(ArchError, match="device bare states no bandwidth"):
        Rates.of("bare", {"bf16_tflops": 100})


def test_what_stays_in_a_known_cache_moves_at_its_rate():
    cached = KernelClock(Rates("local", RATES.peaks, 1000e9, LastCache(1e7, 5000e9)), EFFICIENCY)
    add = Timed("add", "elementwise", 1e6, 6e6, 3e6)
    assert cached.time(add).floor == pytest.approx(9e6 / 5000e9, rel=1e-12)
    assert (cached.time(add).bound_by, CLOCK.time(add).bound_by) == ("cache", "memory")
    more = add._replace(read=8e6)
    assert cached.time(more) == CLOCK.time(more)


def test_links_are_sorted_by_the_size_of_their_group():
    links = EFFICIENCY.links()
    assert [(link.devices, link.latency, link.bandwidth) for link in links] == [
        (2, pytest.approx(20e-6), 300e9),
        (8, pytest.approx(30e-6), 350e9),
    ]
    assert links[0].origin.table == "a table"
