"""Constants fitted to profiles: made-up ones whose constants are known, and what is refused."""

import pytest

from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.predict.calibrate.calibration import CalibrationSource, calibrate
from archcli.wings.serving.predict.calibrate.fit import HeldOut, minimized, quantile
from archcli.wings.serving.predict.calibrate.samples import MeasuredRun
from archcli.wings.serving.predict.constants import LastCache, Rates
from archcli.wings.serving.predict.times import KernelClock
from archcli.wings.serving.recorded.classes import TimeClass

PEAK, BANDWIDTH = 1e11, 1e10
RATES = Rates("made up", {"fp32": PEAK}, BANDWIDTH)
SOURCE = CalibrationSource("a.json, b.json", "fp32", "2026-11-23", "`archcli profile gpt2 -s 512`")
PRODUCT_LAUNCH, COMPUTE, MEMORY = 2e-6, 0.8, 0.5
MANY = 1 << 20
MOVED_LAUNCH, MOVED, ATTENTION = 3e-6, 0.4, 0.25
CALL, FREED = 5e-6, 1.5


def product(m, n, k):
    """A product and its seconds: launch, and the root of the squares of computing and moving."""
    kernel = KernelCost("mm", 2 * m * n * k, 4 * (m * k + k * n), 4 * m * n, "fp32")
    compute, moved = kernel.flops / (COMPUTE * PEAK), kernel.bytes / (MEMORY * BANDWIDTH)
    return OpClass.CONTRACTION.value, kernel, PRODUCT_LAUNCH + (compute**2 + moved**2) ** 0.5


def moved(elements):
    """A norm and its seconds."""
    kernel = KernelCost("native_layer_norm", 7 * elements, 4 * elements, 4 * elements, "fp32")
    return OpClass.NORMALIZATION.value, kernel, MOVED_LAUNCH + 8 * elements / (MOVED * BANDWIDTH)


def fast(elements):
    """A norm whose bytes lie in the cache, and its seconds."""
    op_class, kernel, _ = moved(elements)
    return op_class, kernel, MOVED_LAUNCH + kernel.bytes / (3 * BANDWIDTH)


def attended(tokens):
    """Attention and its seconds."""
    name = "_scaled_dot_product_flash_attention_for_cpu"
    kernel = KernelCost(name, 4 * tokens**2 * 64, 4 * 3 * tokens * 64, 4 * tokens * 64, "fp32")
    compute, memory = kernel.flops / (ATTENTION * PEAK), kernel.bytes / (MEMORY * BANDWIDTH)
    return TimeClass.FUSED_ATTENTION.value, kernel, PRODUCT_LAUNCH + (compute**2 + memory**2) ** 0.5


def profiles(*passes):
    """A run of each list of (class, kernel, seconds), 10 times each as in 10 layers."""
    for i, rows in enumerate(passes):
        kernels = tuple(
            KernelRun(f"row_{j}", "forward", kernel, op_class, 10)
            for j, (op_class, kernel, _) in enumerate(rows)
        )
        seconds = {f"row_{j}": 10 * each for j, (*_, each) in enumerate(rows)}
        written = sum(kernel.written for _, kernel, _ in rows)
        beside = 10 * (len(rows) * CALL + written / (FREED * BANDWIDTH))
        yield MeasuredRun(f"{i}.json", str(i), kernels, seconds, beside)


PASSES = [
    [product(m, 512, 256), product(m, 256, 2048), product(4 * m, 8, 8), moved(m * 300), attended(m)]
    for m in (8, 64, 512)
]


@pytest.mark.long
def test_known_constants_are_found_again():
    efficiency = calibrate([*profiles(*PASSES)], RATES, SOURCE)
    products, norms = efficiency.products("fp32"), efficiency.memory_bound("normalization")
    assert products[:3] == (pytest.approx(PRODUCT_LAUNCH, rel=0.02), 0.0, pytest.approx(COMPUTE, rel=0.02))
    assert products.memory == pytest.approx(MEMORY, rel=0.02)
    assert products.exponent == pytest.approx(2, rel=0.05)
    assert norms.launch == pytest.approx(MOVED_LAUNCH, rel=0.02)
    assert norms.memory == pytest.approx(MOVED, rel=0.02)
    assert efficiency.attention("fp32").compute == pytest.approx(ATTENTION, rel=0.02)
    framework = efficiency.memory_bound("framework")
    assert framework.launch == pytest.approx(CALL, rel=0.02)
    assert framework.memory == pytest.approx(FREED, rel=0.02)
    assert products.origin.rows == 9
    assert products.origin.table == "a.json, b.json"
    assert products.origin.error < 0.02


@pytest.mark.long
def test_a_kind_of_too_few_sizes_has_the_constants_of_all():
    efficiency = calibrate([*profiles(*PASSES)], RATES, SOURCE)
    assert efficiency.memory_bound("gather") == efficiency.memory_bound("normalization")


@pytest.mark.long
def test_a_size_is_left_out_of_the_fit_that_it_tests():
    """One norm of three takes twice as long: the fit of the other two does not know it."""
    late = [list(rows) for rows in PASSES]
    op_class, kernel, seconds = late[2][3]
    late[2][3] = op_class, kernel, 2 * seconds
    origin = calibrate([*profiles(*late)], RATES, SOURCE).memory_bound("normalization").origin
    assert origin.rows == 3
    assert origin.high > 1.5


@pytest.mark.parametrize(
    ("kept", "missing"),
    [
        ((1, 3, 4), "matrix products"),
        ((0, 1, 2, 4), "kernels that memory bounds"),
        ((0, 1, 2, 3, 4), "attention in one kernel"),
    ],
)
def test_fewer_than_three_sizes_of_a_class_are_refused(kept, missing):
    passes = [[rows[i] for i in kept] for rows in PASSES[:2]]
    if missing == "attention in one kernel":
        passes = [[*rows, *(moved(n) for n in (100, 1000))] for rows in passes]
    with pytest.raises(ArchError) as refused:
        calibrate([*profiles(*passes)], RATES, SOURCE)
    text = str(refused.value)
    assert missing in text
    assert "3 are needed" in text
    assert "archcli profile gpt2 -s 512" in text


def test_rows_of_another_depth_are_refused():
    (run, *_) = profiles(*PASSES)
    with pytest.raises(ArchError, match="without --depth"):
        calibrate([run._replace(seconds={"layers": 1.0})], RATES, SOURCE)


def test_the_simplex_finds_the_least_of_a_valley():
    def valley(point):
        x, y = point
        return (x - 1) ** 2 + 10 * (y - x * x) ** 2

    assert minimized(valley, (-1.0, 2.0)) == pytest.approx((1, 1), abs=1e-3)


def test_quantiles_lie_between_two_values_in_proportion_to_the_seconds_that_they_are_of():
    """Three rows of 1, 2 and 1 seconds lie at 1/8, 1/2 and 7/8 of all."""
    held_out = [HeldOut(3.0, 1), HeldOut(1.0, 1), HeldOut(2.0, 2)]
    assert quantile(held_out, 0.5) == 2.0
    assert quantile(held_out, 5 / 16) == pytest.approx(1.5)
    assert quantile(held_out, 0.1) == 1.0
    assert quantile(held_out, 0.9) == 3.0


@pytest.mark.long
def test_training_has_a_framework_of_its_own_from_three_profiles_on():
    """Half as long for each call in passes as in training."""
    steps = [run._replace(sizes=f"train {run.sizes}", trains=True) for run in profiles(*PASSES)]
    passes = [run._replace(framework_s=run.framework_s / 2) for run in profiles(*PASSES)]
    both = calibrate([*steps, *passes], RATES, SOURCE)
    assert both.memory_bound("framework").launch == pytest.approx(CALL / 2, rel=0.02)
    assert both.memory_bound("training_framework").launch == pytest.approx(CALL, rel=0.02)
    few = calibrate([*steps[:2], *passes], RATES, SOURCE)
    assert few.memory_bound("training_framework").origin.rows == 5


@pytest.mark.long
def test_what_lies_in_the_cache_is_not_taken_for_the_rate_of_memory():
    """Norms at three times the rate of memory, all within the cache: one beyond it has that of memory."""
    cached = Rates("made up", RATES.peaks, BANDWIDTH, LastCache(MANY, 10 * BANDWIDTH))
    norms = [[*rows[:3], fast(m * 100), rows[4]] for m, rows in zip((8, 64, 512), PASSES, strict=True)]
    clock = KernelClock(cached, calibrate([*profiles(*norms)], cached, SOURCE))
    within, beyond = (
        KernelCost("native_layer_norm", 0, size // 2, size // 2, "fp32") for size in (MANY, 10 * MANY)
    )
    times = [clock.time(kernel, OpClass.NORMALIZATION.value).seconds.expected for kernel in (within, beyond)]
    assert times[0] == pytest.approx(MOVED_LAUNCH + MANY / (3 * BANDWIDTH), rel=0.05)
    assert times[1] == pytest.approx(MOVED_LAUNCH + 10 * MANY / BANDWIDTH, rel=0.05)
