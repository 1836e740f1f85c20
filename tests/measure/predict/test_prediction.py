"""Predictions by hand: on devices whose rates make one cost the only one, and of what plans add to it."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.passes import count_pass
from archcli.modules import Group
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, Rates
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.predict.rank.kernels import CacheUse
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.rank.training import training_work
from archcli.wings.serving.predict.times import KernelClock
from small import attention, decoder, layer

B, T, D, V, LAYERS = 2, 16, 8, 50, 3
BF16 = 2
HUGE = 1e30
GB_S = 1e9
ORIGIN = {"error": 0.1, "low": 0.5, "high": 2.0, "rows": 9, "table": "t.csv", "fitted": "2026-01-01"}
CONSTANTS = {
    "matrix_products": {
        "bf16": {"launch_us": 3.0, "depth_ns": 0, "compute": 0.5, "memory": 0.5, "exponent": 1.0} | ORIGIN
    },
    "memory_bound": {
        kind: {"launch_us": 1.0, "memory": 0.5} | ORIGIN
        for kind in ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
    },
    "communication": {"2": {"latency_us": 7.0, "link": 0.5, "small_low": 0.25, "small_high": 4.0} | ORIGIN},
}


def device(peak=HUGE, bandwidth=GB_S, link=HUGE, network=HUGE, constants=None):
    """A device of so many FLOP/s and bytes a second; what is not stated costs nothing."""
    clock = KernelClock(Rates("ours", {"bf16": peak, "fp32": peak}, bandwidth), Efficiency(constants or {}))
    return TimingDevice(clock, Fabric("ours", link / 1e9, network / 1e9))


def settings(phase="train", **changes):
    return MemorySettings(**{"phase": phase, "batch_size": B, "seq_len": T} | changes)


def moved(model, phase):
    asked = settings(phase)
    runs = trace_kernels(model, asked.request(model), asked.execution())
    return sum(run.times * run.kernel.bytes for run in runs)


LOSS = 3 * B * T * V * BF16
PARAMS = LAYERS * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8) + 2 * V * D + D
TENSORS = LAYERS * (4 + 3 + 2) + 3


def update_bytes(share=1, gradient=2, tensors=TENSORS):
    """AdamW on fp32 masters: gradient, master and two moments read; these and the weight written.

    A step count of 4 bytes for each tensor is both. A rank has one of `share` parts.
    """
    states = 3 * 4 * PARAMS // share + 4 * tensors
    return gradient * PARAMS // share + states + states + BF16 * PARAMS // share


UPDATE = update_bytes()


def test_all_that_is_moved():
    """A step: kernels, logits thrice, and the update; nothing but bytes costs anything."""
    model = decoder()
    found = predict_pass(model, settings(), device())
    assert found.seconds.floor == pytest.approx((moved(model, "train") + LOSS + UPDATE) / GB_S)
    known = found.seconds.record()
    assert (known["expected"], known["low"], found.origin) == (None, None, None)
    assert found.bound_by == "memory"
    assert found.not_modelled[0] == (
        "What kernels reach of the device's peaks: no measurements of it are known."
    )
    assert sum(row.bytes for row in found.rows) == pytest.approx(moved(model, "train") + LOSS + UPDATE)
    assert predict_pass(model, settings("prefill"), device()).seconds.floor == pytest.approx(
        moved(model, "prefill") / GB_S
    )


def test_all_that_is_computed():
    """Only products cost: a step computes three times what a forward does."""
    model, ours = decoder(), device(peak=1e9, bandwidth=HUGE)
    found = predict_pass(model, settings(), ours)
    assert found.seconds.floor == pytest.approx(found.executed_flops / 1e9)
    assert found.bound_by == "compute"
    flops, _ = count_pass(model, Request("train", B, T)).flops()
    assert found.model_flops == flops
    assert found.mfu == pytest.approx(flops / found.executed_flops)
    assert found.tokens_per_s["floor"] == pytest.approx(B * T * 1e9 / found.executed_flops)


def test_recomputation_is_executed_again():
    """A forward of every layer but its last product, which keeps its input alone."""
    model, ours = decoder(), device(peak=1e9, bandwidth=HUGE)
    whole, again = (predict_pass(model, settings(recompute=it), ours) for it in ("none", "layer"))
    layer = [row for row in whole.rows if row.path.startswith("layers") and row.stage == "forward"]
    repeated = {row.path: row.flops for row in again.rows if row.stage == "recomputed"}
    assert again.executed_flops - whole.executed_flops == pytest.approx(
        sum(
            row.flops
            for row in layer
            if row.path in repeated and row.op_class in ("contraction", "fused_attention")
        )
    )
    assert again.model_flops == whole.model_flops
    assert again.hfu > again.mfu


def test_accumulation_and_replicas():
    """Four micro batches and one update; two replicas have twice the tokens."""
    model = decoder()
    found = predict_pass(model, settings(grad_accum=4), device(), Plan(dp=2))
    assert found.seconds.floor == pytest.approx((4 * (moved(model, "train") + LOSS) + UPDATE) / GB_S)
    assert found.tokens == 2 * 4 * B * T
    assert found.devices == 2


def test_tensor_parallelism_waits_for_its_link():
    """Seven all-reduces of B T d in a prefill, all exposed: 2 (t - 1) / t of each."""
    sent = 7 * 2 * B * T * D * BF16 // 2
    found = predict_pass(decoder(), settings("prefill"), device(HUGE, HUGE, GB_S), Plan(tp=2))
    # the head's logits are of the last token, and each sum is of all tokens
    assert found.seconds.floor == pytest.approx(sent / GB_S)
    assert found.bound_by == "link"
    assert next(iter(found.by_class().items())) == ("communication", pytest.approx(sent / GB_S))


def test_gathers_hide_behind_computing():
    """FSDP on a slow link takes what it sends less what computing covers; on a fast one computing alone."""
    model, plan = decoder(), Plan(dp=2, zero=3)
    update = update_bytes(share=2)
    fast = predict_pass(model, settings(), device(), plan)
    assert fast.seconds.floor == pytest.approx((moved(model, "train") + LOSS + update) / GB_S)
    slow = predict_pass(model, settings(), device(link=GB_S / 1e6), plan)
    sent = sum(one.timed.time_s for one in slow.communication)
    assert slow.seconds.floor == pytest.approx(sent, rel=1e-4)
    assert slow.bound_by == "link"


def test_the_bubble():
    """Two stages, four micro batches: each waits as long as one of its own."""
    model, ours = decoder(), device(peak=1e9, bandwidth=HUGE)
    found = predict_pass(model, settings(), ours, Plan(pp=2, micro_batches=4))
    stage = sum(row.seconds.floor for row in found.rows) / 4
    assert found.bubble_s == pytest.approx(stage)
    assert found.seconds.floor == pytest.approx(5 * stage)
    # the first has two of three layers, the last the third and the head
    whole = predict_pass(model, settings(), ours)
    layers = sum(row.seconds.floor for row in whole.rows if row.path.startswith("layers"))
    assert stage == pytest.approx(max(layers * 2 / 3, whole.seconds.floor - layers * 2 / 3))
    assert found.executed_flops == pytest.approx(4 * whole.executed_flops)


def test_context_parallelism_computes_all_pairs():
    """T (T + c) / 2 pairs of c ranks with blocks of their own, of T (T + 1) / 2."""
    model, ours = decoder(), device(peak=1e9, bandwidth=HUGE)
    whole, shared = (predict_pass(model, settings(), ours, plan) for plan in (Plan(), Plan(cp=4)))

    def attention(found):
        return sum(row.flops for row in found.rows if row.op_class == "fused_attention")

    assert 4 * attention(shared) == pytest.approx(attention(whole) * (T + 4) / (T + 1))
    products = whole.executed_flops - attention(whole)
    assert shared.executed_flops == pytest.approx(products + 4 * attention(shared))


def of_constants(peak, bandwidth):
    """A pass with products at half the peak after 3 us, other kernels at half the bandwidth after 1 us."""
    found = predict_pass(decoder(), settings("prefill"), device(peak, bandwidth, constants=CONSTANTS))
    seconds = 0.0
    for row in found.rows:
        if row.op_class == "contraction":
            seconds += row.times * 3e-6 + 2 * (row.flops / peak + row.bytes / bandwidth)
        elif row.op_class == "fused_attention":
            seconds += max(row.flops / peak, row.bytes / bandwidth)  # none are known: its floor
        else:
            seconds += row.times * 1e-6 + 2 * row.bytes / bandwidth
    attention = sum(row.seconds.floor for row in found.rows if row.op_class == "fused_attention")
    return found, seconds, attention


def test_constants():
    found, seconds, attention = of_constants(1e12, 1e12)
    assert attention < 0.1 * seconds
    assert found.seconds.expected == pytest.approx(seconds)
    assert found.seconds.low == pytest.approx(0.5 * (seconds - attention) + attention)
    assert found.seconds.high == pytest.approx(2 * (seconds - attention) + attention)


def test_no_range_where_a_part_without_constants_takes_more_than_a_tenth():
    found, seconds, attention = of_constants(1e9, GB_S)
    assert attention > 0.1 * seconds
    assert not found.seconds.is_calibrated
    assert found.seconds.floor == found.seconds.expected == found.seconds.low == found.seconds.high
    assert found.tokens_per_s["expected"] is None
    assert found.origin.table == "t.csv"
    assert found.not_modelled[0].startswith(
        "Kernels without measurements, taken at the limit: fused attention"
    )


def test_constants_of_links():
    """7 us before each of seven sums, and half the rate on paper; small ones have a range of their own."""
    ours = device(HUGE, HUGE, GB_S, constants=CONSTANTS)
    alone, shared = (
        predict_pass(decoder(), settings("prefill"), ours, plan) for plan in (Plan(), Plan(tp=2))
    )
    sent = sum(one.timed.collective.bytes for one in shared.communication)
    expected = 7 * 7e-6 + 2 * sent / GB_S
    assert sum(one.least_s for one in shared.communication) == pytest.approx(expected)
    assert shared.seconds.expected == pytest.approx(alone.seconds.expected + expected, rel=1e-6)
    assert shared.seconds.low == pytest.approx(alone.seconds.low + 0.25 * expected, rel=1e-6)
    assert shared.seconds.high == pytest.approx(alone.seconds.high + 4 * expected, rel=1e-6)


def test_constants_of_steps():
    """Products at 0.8 of their speed alone, bytes at 0.4 of the bandwidth, a fourth of what replicas send."""
    step = {"matrix_products": 0.8, "memory_bound": 0.4, "attention": 0.6, "communication": 4.0} | ORIGIN
    ours = device(1e9, GB_S, GB_S, constants=CONSTANTS | {"training": {"bf16": step}})
    found = predict_pass(decoder(), settings(), ours, Plan(dp=2, zero=3))
    seconds = sum(one.timed.time_s for one in found.communication) / 4
    for row in found.rows:
        if row.op_class == "contraction":
            seconds += (row.times * 3e-6 + 2 * (row.flops + row.bytes) / 1e9) / 0.8
        elif row.op_class == "fused_attention":
            seconds += row.seconds.floor / 0.6
        else:
            seconds += row.bytes / 0.4e9
    assert found.seconds.expected == pytest.approx(seconds)
    assert (found.seconds.low, found.seconds.high) == (
        pytest.approx(0.5 * seconds),
        pytest.approx(2 * seconds),
    )


def test_the_range_of_a_step_is_that_of_its_constants():
    """0.9 to 1.3 of what is expected."""
    step = {"matrix_products": 0.8, "memory_bound": 0.4, "attention": 0.6, "communication": 0.9}
    wide = ORIGIN | {"low": 0.9, "high": 1.3}
    ours = device(1e12, 1e12, HUGE, constants=CONSTANTS | {"training": {"bf16": step | wide}})
    found = predict_pass(decoder(), settings(), ours).seconds
    assert found.low == pytest.approx(0.9 * found.expected, rel=0.01)
    assert found.high == pytest.approx(1.3 * found.expected, rel=0.01)


@pytest.mark.parametrize("plan", [Plan(), Plan(dp=2, zero=3), Plan(dp=4, zero=2)])
def test_steps_are_those_that_constants_were_fitted_on(plan):
    """The expected time of a step is that of the work that `benchmarks/predict_training.py` compares."""
    step = {"matrix_products": 0.8, "memory_bound": 0.4, "attention": 0.6, "communication": 0.9} | ORIGIN
    ours = device(1e9, GB_S, GB_S, constants=CONSTANTS | {"training": {"bf16": step}})
    asked = settings(recompute="layer", grad_accum=3)
    work = training_work(decoder(), asked, plan, ours.clock, ours.fabric)
    fitted = work.seconds(ours.step_constants(asked))
    found = predict_pass(decoder(), asked, ours, plan).seconds
    assert (found.expected, found.low, found.high) == tuple(
        pytest.approx(seconds) for seconds in (fitted.expected, fitted.low, fitted.high)
    )


def test_a_cache_that_is_written_in_place():
    """Of 16 cached tokens and one more, 2 heads of 8 keys and values: the copies of all fall away."""
    model, asked = decoder(Group(n_layers=LAYERS, layer=layer(attention(head_dim=8)))), settings("decode")
    grown, placed = (
        predict_pass(model, asked, device(), use=use) for use in (CacheUse(), CacheUse("in_place"))
    )
    of_cache = 2 * LAYERS * (B * 2 * 8) * BF16  # a token's keys and values
    copied = of_cache * 2 * (T + 1)
    assert grown.seconds.floor - placed.seconds.floor == pytest.approx((copied - 2 * of_cache) / GB_S)
    assert grown.tokens == B


def test_a_cache_that_each_query_head_reads():
    """Four query heads on two heads of keys and values read them twice."""
    model, asked = decoder(), settings("decode")
    once, each = (
        predict_pass(model, asked, device(), use=CacheUse(reads=reads)) for reads in ("groups", "heads")
    )
    assert each.seconds.floor - once.seconds.floor == pytest.approx(
        2 * LAYERS * B * (T + 1) * 2 * 2 * BF16 / GB_S
    )


def test_what_is_refused():
    with pytest.raises(ArchError, match="no peak of fp16"):
        predict_pass(decoder(), settings(dtype="fp16"), device())
    unlinked = TimingDevice(device().clock, Fabric("ours"))
    with pytest.raises(ArchError, match="no rate to its neighbours"):
        predict_pass(decoder(), settings(), unlinked, Plan(dp=2))
    with pytest.raises(ArchError, match="does not divide"):
        predict_pass(decoder(), settings(), device(), Plan(tp=3))


def test_records():
    (found,) = (
        row for row in predict_pass(decoder(), settings("prefill"), device()).rows if row.path == "lm_head"
    )
    assert found.record() == {
        "path": "lm_head",
        "stage": "forward",
        "kernel": "mm",
        "class": "contraction",
        "times": 1.0,
        "flops": 2 * B * D * V,
        "bytes": BF16 * (B * D + D * V + B * V),
        "time_s": BF16 * (B * D + D * V + B * V) / GB_S,
        "floor_s": BF16 * (B * D + D * V + B * V) / GB_S,
        "bound_by": "memory",
    }


@pytest.mark.parametrize("plan", [Plan(tp=8), Plan(dp=4, tp=2)])
def test_a_served_model(plan):
    """Every rank of a decoded token of Llama 3.1 70B moves its part of the weights, and of the cache."""
    model = load("llama-3.1-70b").model
    asked = settings("decode", batch_size=8, seq_len=2048)
    found = predict_pass(model, asked, device(), plan, CacheUse("in_place"))
    table = 128_256 * 8192
    weights = (70_553_706_496 - table) // plan.tp * BF16
    cache = 80 * (8 // plan.dp) * 2049 * 2 * (8 // plan.tp) * 128 * BF16
    assert weights + cache < found.seconds.floor * GB_S < 1.02 * (weights + cache)
