"""Seconds of kernels: the roofline, what constants make of it, and what binds, worked out in the open."""

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.launches.kernel import KernelCost
from archcli.wings.serving.predict.constants import Efficiency, LastCache, Rates
from archcli.wings.serving.predict.times import KernelClock, Seconds, kind_of, narrowed
from archcli.wings.serving.recorded.classes import TimeClass
from table import every_row


def cost(name, flops, read, written, dtype="bf16"):
    """A kernel in bf16, unless another type is said."""
    return KernelCost(name, flops, read, written, dtype)


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
            "8": {"latency_us": 30, "link": 0.8, "small_low": 0.5, "small_high": 2.0, **ORIGIN},
            "2": {"latency_us": 20, "link": 0.7, "small_low": 0.5, "small_high": 2.0, **ORIGIN},
        },
    }
)
RATES = Rates.of("mine", {"bf16_tflops": 100, "bandwidth_gb_s": 1000})
CLOCK, FLOOR = KernelClock(RATES, EFFICIENCY), KernelClock(RATES, Efficiency({}))
CLASSES = {
    "mm": "contraction",
    "bmm": "contraction",
    "native_layer_norm": "normalization",
    "add": "elementwise",
    "_scaled_dot_product_flash_attention": "fused_attention",
    "copy_": "movement",
}


def timed(kernel, clock=CLOCK):
    """The time of a kernel of its name's class."""
    return clock.time(kernel, CLASSES[kernel.name])


M, N, K = 4096, 1024, 2048
PRODUCT_BYTES = (2 * (M * K + K * N), 2 * M * N)
MM = cost("mm", 2 * M * N * K, *PRODUCT_BYTES)


def test_a_matrix_product_is_launch_and_depth_and_the_norm_of_compute_and_memory():
    compute = 2 * M * N * K / (100e12 * 0.8)
    memory = sum(PRODUCT_BYTES) / (1000e9 * 0.5)
    expected = 4e-6 + 0.5e-9 * K + (compute**2 + memory**2) ** 0.5
    time = timed(MM)
    assert time.seconds.floor == pytest.approx(2 * M * N * K / 100e12, rel=1e-12)
    assert time.seconds.expected == pytest.approx(expected, rel=1e-12)
    assert (time.seconds.low, time.seconds.high) == pytest.approx((0.9 * expected, 1.2 * expected), rel=1e-12)
    assert time.bound_by == "compute"


def test_the_depth_of_a_batch_of_products_is_that_of_one():
    batch = cost("bmm", 7 * MM.flops, 7 * MM.read, 7 * MM.written)
    deeper = 7 * (timed(MM).seconds.expected - 4e-6 - 0.5e-9 * K)
    assert timed(batch).seconds.expected == pytest.approx(4e-6 + 0.5e-9 * K + deeper, rel=1e-12)


def test_a_product_of_no_elements_takes_its_launch():
    """Of a prompt of 2 tokens compressed 3 by 3, no token is read."""
    assert timed(cost("mm", 0, 0, 0)).seconds.expected == pytest.approx(4e-6)


def test_a_thin_product_is_bound_by_memory_and_a_tiny_one_by_its_launch():
    thin = cost("mm", 2 * N * N, 2 * (N * N + N), 2 * N)
    thin = thin._replace(flops=64 * thin.flops, read=64 * thin.read, written=64 * thin.written)
    assert timed(thin).bound_by == timed(thin, FLOOR).bound_by == "memory"
    tiny = cost("mm", 2 * 8 * 8 * 8, 2 * 2 * 64, 2 * 64)
    assert timed(tiny).bound_by == "launch"


def test_kernels_that_memory_bounds_have_their_own_fractions():
    norm = cost("native_layer_norm", 7e6, 2e6, 2e6)
    assert timed(norm).seconds.floor == pytest.approx(4e6 / 1000e9, rel=1e-12)
    assert timed(norm).seconds.expected == pytest.approx(2e-6 + 4e6 / (1000e9 * 0.25), rel=1e-12)
    add = cost("add", 1e6, 4e6, 2e6, "fp32")
    assert timed(add).seconds.expected == pytest.approx(1e-6 + 6e6 / (1000e9 * 0.8), rel=1e-12)
    assert timed(add).bound_by == "memory"


def test_attention_has_a_compute_fraction_of_its_own_and_no_loop_over_k():
    flash = cost("_scaled_dot_product_flash_attention", 1e12, 3e6, 1e6)
    compute, memory = 1e12 / (100e12 * 0.2), 4e6 / (1000e9 * 0.5)
    assert timed(flash).seconds.expected == pytest.approx(4e-6 + (compute**2 + memory**2) ** 0.5, rel=1e-12)


KINDS = {
    ("addmm", "contraction"): "matrix_products",
    ("_scaled_dot_product_flash_attention", "fused_attention"): "attention",
    ("add", "elementwise"): "addition",
    ("silu", "elementwise"): "gated_activation",
    ("gelu_backward", "elementwise"): "gated_activation",
    ("mul", "elementwise"): "elementwise",
    ("addcmul", "elementwise"): "elementwise",
    ("_softmax", "normalization"): "normalization",
    ("copy_", "movement"): "movement",
    ("embedding", "movement"): "gather",
    ("embedding_dense_backward", "normalization"): "gather",
    ("topk", "routing"): "elementwise",
    ("cumsum", "recurrence"): "elementwise",
    ("bernoulli", "random"): "elementwise",
}


@every_row(("name", "op_class"), KINDS)
def test_kernels_are_told_apart_by_class_and_name(name, op_class):
    assert kind_of(TimeClass(op_class), name) == KINDS[name, op_class]


def test_without_constants_there_is_a_floor_alone():
    """No constants of any kind, none of this kind, and none of this dtype."""
    copy = cost("copy_", 0, 1e6, 1e6)
    for clock, kernel in ((FLOOR, MM), (CLOCK, copy)):
        time = timed(kernel, clock)
        assert time.seconds.floor > 0
        assert [*time.seconds.record().values()] == [time.seconds.floor, None, None, None]
        assert time.seconds.scaled(3).floor == 3 * time.seconds.floor
        assert time.seconds.scaled(3).record()["expected"] is None


def test_fp16_has_the_peak_and_the_constants_of_bf16():
    half = MM._replace(dtype="fp16")
    assert timed(half) == timed(MM)


def test_a_dtype_without_a_peak_is_told():
    with pytest.raises(ArchError, match="device mine states no peak of fp8; it has peaks of bf16, fp16"):
        timed(MM._replace(dtype="fp8"))
    with pytest.raises(ArchError, match="device bare states no bandwidth"):
        Rates.of("bare", {"bf16_tflops": 100})


def test_what_stays_in_a_known_cache_moves_at_its_rate():
    cached = KernelClock(Rates("local", RATES.peaks, 1000e9, LastCache(1e7, 5000e9)), EFFICIENCY)
    add = cost("add", 1e6, 6e6, 3e6)
    assert timed(add, cached).seconds.floor == pytest.approx(9e6 / 5000e9, rel=1e-12)
    assert (timed(add, cached).bound_by, timed(add).bound_by) == ("cache", "memory")
    more = add._replace(read=8e6)
    assert timed(more, cached) == timed(more)


def test_a_ring_has_the_constants_of_its_size_or_of_the_largest_below():
    rings = [EFFICIENCY.ring(n) for n in (2, 4, 8, 512)]
    assert [(ring.ranks, ring.latency, ring.link) for ring in rings] == [
        (2, pytest.approx(20e-6), 0.7),
        (2, pytest.approx(20e-6), 0.7),
        (8, pytest.approx(30e-6), 0.8),
        (8, pytest.approx(30e-6), 0.8),
    ]
    assert rings[0].origin.table == "a table"
    assert Efficiency({}).ring(8) is None


def test_in_a_sum_what_has_no_constants_counts_at_its_floor():
    known, unknown = Seconds.within(1.0, 2.0, 0.5, 3.0), Seconds.at_limit(4.0)
    both = {"floor": 1.0 + 4.0, "expected": 2.0 + 4.0, "low": 0.5 * 2.0 + 4.0, "high": 3.0 * 2.0 + 4.0}
    assert known.plus(unknown).record() == unknown.plus(known).record() == both
    assert unknown.plus(unknown).record() == {"floor": 8.0, "expected": None, "low": None, "high": None}


def test_one_number_in_four_bits_is_a_byte():
    """Qwen3.5's gate of shared experts is one number: k products, whose depth divides by what is written."""
    kernel = narrowed(cost("mm", 2 * 2048, 2 * 2 * 2048, 2), "fp4")
    assert (kernel.read, kernel.written, kernel.dtype) == (2048, 1, "fp4")
    assert narrowed(cost("mm", 1, 8, 8), "fp8").written == 4
