"""Serving, worked out in the open: sums over steps, an engine's factor, break-even points, fp8."""

import math

import pytest

from archcli.load.source import load
from archcli.measure.kvcache.engine import ANY_ENGINE
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.break_even import break_even
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, Rates
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.predict.rank.kernels import CacheUse
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.serving import (
    FIXED_BATCH,
    Engine,
    in_fewer_bits,
    serve,
    spanned,
    with_engine,
)
from archcli.wings.serving.predict.times import KernelClock, Seconds
from small import decoder

B, PROMPT, NEW = 3, 16, 40
LAYERS, KV_HEADS, HEAD, BF16 = 3, 2, 2, 2
HUGE, GB_S = 1e30, 1e9
ORIGIN = {"error": 0.1, "low": 0.9, "high": 1.2, "rows": 9, "table": "t.csv", "fitted": "2026-01-01"}
BF16_PRODUCTS = {"launch_us": 3.0, "depth_ns": 0, "compute": 0.5, "memory": 0.25, "exponent": 1.0} | ORIGIN
IN_PLACE = CacheUse("in_place")
PARAMS = LAYERS * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12) + 50 * 8
"""Numbers of the matrices that products read: of three layers of width 8, and of the head."""


def device(peak=HUGE, bandwidth=GB_S, constants=None, **peaks):
    clock = KernelClock(Rates("ours", {"bf16": peak} | peaks, bandwidth), Efficiency(constants or {}))
    return TimingDevice(clock, Fabric("ours", HUGE, HUGE))


def settings(phase="serve", **changes):
    return MemorySettings(
        **{"phase": phase, "batch_size": B, "seq_len": PROMPT, "engine": ANY_ENGINE} | changes
    )


def step(past, on=None, model=None):
    asked = settings("decode", seq_len=past)
    return predict_pass(model or decoder(), asked, on or device(), Plan(), IN_PLACE)


@pytest.mark.long
def test_serving_is_the_prefill_and_every_step():
    prefill = predict_pass(decoder(), settings("prefill"), device(), Plan(), IN_PLACE)
    steps = [step(past).seconds.floor for past in range(PROMPT, PROMPT + NEW)]
    found = serve(decoder(), settings(), NEW, device(), Plan(), IN_PLACE)
    assert found.whole.seconds.floor == pytest.approx(prefill.seconds.floor + sum(steps), rel=1e-9)
    alone = predict_pass(decoder(), settings("prefill", batch_size=1), device(), Plan(), IN_PLACE)
    assert found.first_token.expected == prefill.seconds.expected
    assert found.first_token.floor == alone.seconds.floor < prefill.seconds.floor
    assert found.per_token.floor == pytest.approx(sum(steps) / NEW, rel=1e-9)
    assert found.whole.tokens == B * NEW
    assert found.whole.tokens_per_s["floor"] == pytest.approx(B * NEW / found.whole.seconds.floor)
    assert sum(row.seconds.floor for row in found.whole.rows) == pytest.approx(
        found.whole.seconds.floor, rel=1e-9
    )


LATENT, ROTARY = 512, 64


def attention_of(model, phase, batch, tokens):
    """The row of attention in one layer as an engine runs it: bytes and FLOPs of one call."""
    asked = MemorySettings(phase, batch, tokens, engine=ANY_ENGINE)
    rows = predict_pass(load(model).model, asked, device(), Plan(), IN_PLACE).rows
    [row, *_] = [row for row in rows if row.path.endswith("attention.attend")]
    return row.bytes / row.times, row.flops / row.times


def test_latent_attention_reads_its_cache_once_for_all_heads():
    """DeepSeek-V3: 128 queries of 576 are read, as many of 512 written; the first 512 of a key are values."""
    batch, past, heads = 2, 1000, 128
    keys = LATENT + ROTARY
    read, flops = attention_of("deepseek-v3", "decode", batch, past)
    once = batch * (past + 1) * keys * BF16
    assert read == once + batch * heads * (keys + LATENT) * BF16
    assert flops == 2 * batch * heads * (past + 1) * (keys + LATENT)


def test_an_engine_joins_no_cached_keys():
    paths = [
        row.path
        for row in predict_pass(
            load("deepseek-v3").model, settings("decode", seq_len=100), device(), Plan(), IN_PLACE
        ).rows
    ]
    assert "layers.3.attention.attend" in paths
    assert "layers.3.attention.k" not in paths


@pytest.mark.parametrize("model", ["gpt-oss-20b", "gemma-2-9b", "bloom-7b1", "mistral-7b-v0.1"])
def test_an_engine_has_no_scores_of_all_pairs(model):
    """Sinks, softcaps, ALiBi and windows: one kernel reads queries, keys and values once."""
    tokens = 4096
    model = load(model).model
    rows = predict_pass(model, settings("prefill", seq_len=tokens), device(), Plan(), IN_PLACE).rows
    found = [row for row in rows if row.path.endswith("attention.attend")]
    counted = count_pass(model, Request("prefill", B, tokens)).rows
    pairs = [row for row in counted if row.path.endswith("attention.attend")]
    assert sum(row.flops for row in found) == sum(
        part.flops * row.times for row in pairs for part in row.parts if part.op_class == "contraction"
    )
    moved = sum(
        BF16 * row.times * (sum(map(math.prod, row.inputs[:3])) + math.prod(row.outputs[0])) for row in pairs
    )
    assert sum(row.bytes for row in found) == moved


def test_a_window_is_read_alone():
    """gpt-oss: of 4,097 cached tokens half of the layers see 128, whatever the cache holds."""
    rows = predict_pass(
        load("gpt-oss-20b").model, settings("decode", seq_len=4096), device(), Plan(), IN_PLACE
    ).rows
    read = sum(row.bytes for row in rows if row.path.endswith("attention.attend"))
    of_token, q = 2 * 8 * 64 * BF16, 2 * 64 * 64 * BF16
    assert read == 24 * B * q + 12 * B * of_token * (128 + 4097)


def test_a_step_reads_one_more_token_than_the_one_before():
    """Bytes of a token of Llama 3.1 8B: keys and values of 32 layers, 8 heads of 128, for each sequence."""
    of_token = 32 * 2 * B * 8 * 128 * BF16
    llama = load("llama-3.1-8b").model
    one, other = (step(past, model=llama).seconds.floor for past in (PROMPT, PROMPT + 1))
    assert other - one == pytest.approx(of_token / GB_S, rel=1e-4)


def of_time(seconds):
    """A step of a straight or bent line of seconds."""
    one = step(PROMPT)
    return lambda past: one._replace(seconds=Seconds.at_limit(seconds(past)))


@pytest.mark.parametrize(("first", "last"), [(5, 5), (5, 6), (5, 7), (0, 1000)])
def test_a_straight_line_takes_three_steps(first, last):
    asked = []

    def line(past):
        asked.append(past)
        return 3.0 + 0.25 * past

    steps = spanned(of_time(line), first, last)
    number = last - first + 1
    assert sum(weight for weight, _ in steps) == number
    total = sum(weight * one.seconds.floor for weight, one in steps)
    assert total == pytest.approx(3.0 * number + 0.25 * (first + last) * number / 2)
    assert len(asked) <= 3


def test_a_bent_line_is_halved_where_it_bends():
    def bent(past):
        return 1.0 + 0.01 * min(past, 256)

    steps = spanned(of_time(bent), 0, 1023)
    exact = sum(bent(past) for past in range(1024))
    assert sum(weight * one.seconds.floor for weight, one in steps) == pytest.approx(exact, rel=1e-3)
    assert sum(weight for weight, _ in steps) == pytest.approx(1024)


def test_an_engine_is_a_factor_on_all_but_the_floor():
    engine = Engine(0.8, 0.5, 1.0)
    seconds = with_engine(Seconds(1.0, 2.0, 1.8, 2.4, is_calibrated=True), engine)
    assert seconds == Seconds(1.0, 2.0 / 0.8, 1.8 / 1.0, 2.4 / 0.5, is_calibrated=True)
    assert with_engine(Seconds.at_limit(1.0), engine).record()["expected"] is None
    assert FIXED_BATCH.low <= FIXED_BATCH.speed <= FIXED_BATCH.high


def decoded(model, sequences):
    return count_pass(model, Request("decode", sequences, 1, 2**30)).rows


def test_the_batch_that_hides_the_weights():
    """b F / P = W / B: each weight of 2 bytes computes 2 FLOPs for a token, so that b = P / B."""
    peak = 300 * GB_S
    found = break_even(decoded(decoder(), 7), 7, (BF16, BF16), device(peak), "bf16")
    assert found.floor_batch == pytest.approx(300)
    assert found.batch is None
    constants = {"matrix_products": {"bf16": BF16_PRODUCTS}}
    known = break_even(decoded(decoder(), 7), 7, (BF16, BF16), device(peak, constants=constants), "bf16")
    assert known.batch == pytest.approx(300 * 0.5 / 0.25)


def test_the_context_whose_cache_is_as_large_as_the_weights():
    of_token = LAYERS * 2 * KV_HEADS * HEAD
    one = break_even(decoded(decoder(), 1), 1, (BF16, BF16), device(), "bf16")
    assert one.context == round(PARAMS / of_token)
    assert break_even(decoded(decoder(), 4), 4, (BF16, BF16), device(), "bf16").context == round(
        PARAMS / of_token / 4
    )
    in_fp8 = break_even(decoded(decoder(), 1), 1, (1, BF16), device(), "bf16")
    assert in_fp8.context == round(PARAMS / of_token / 2)


def test_a_window_never_outgrows_the_weights():
    """Mistral 7B v0.1 keeps 4,096 tokens of each sequence, 512 MiB: one sequence never has 14 GB."""
    rows = decoded(load("mistral-7b-v0.1").model, 1)
    assert break_even(rows, 1, (2, 2), device(), "bf16").context is None


def test_a_cache_in_fp8_is_half_read():
    """The keys and values of the tokens before and the new one."""
    half = predict_pass(
        decoder(), settings("decode"), device(), Plan(), CacheUse("in_place", cache_dtype="fp8")
    )
    whole = predict_pass(decoder(), settings("decode"), device(), Plan(), IN_PLACE)

    def moved(found, op_class):
        return sum(row.bytes for row in found.rows if row.op_class == op_class)

    assert moved(half, "contraction") == moved(whole, "contraction")
    cached = LAYERS * 2 * B * (PROMPT + 1) * KV_HEADS * HEAD
    assert moved(whole, "fused_attention") - moved(half, "fused_attention") == cached


def test_products_in_fp8_reach_of_their_peak_what_those_in_bf16_do():
    measured = BF16_PRODUCTS | {"compute": 0.1, "high": 2.0, "error": 0.3}
    constants = {"matrix_products": {"bf16": BF16_PRODUCTS, "fp8": measured}}
    found = in_fewer_bits(device(constants=constants)).clock.efficiency.products("fp8")
    assert (found.compute, found.memory) == (0.5, 0.25)
    assert (found.origin.low, found.origin.high, found.origin.error) == (0.9, 2.0, 0.3)
    assert in_fewer_bits(device()).clock.efficiency.products("fp8") is None


def test_an_engine_runs_a_row_in_one_kernel():
    """A rotation reads queries and angles and writes queries, once, however many kernels torch has."""
    model = load("llama-3.1-8b").model
    asked = MemorySettings("decode", 2, 100)
    grown = predict_pass(model, asked, device(), Plan(), CacheUse())
    placed = predict_pass(model, asked, device(), Plan(), IN_PLACE)

    def rotations(found):
        return [row for row in found.rows if row.path.endswith("q_rotate")]

    assert sum(row.times for row in rotations(grown)) == 5 * 32
    (one,) = {row.path: row for row in rotations(placed)}.values()
    assert (sum(row.times for row in rotations(placed)), one.kernel) == (32, "cat")
    queries, angles = 2 * 32 * 128, 128
    assert sum(row.bytes for row in rotations(placed)) == 32 * 2 * (2 * queries + angles)


OF_OTHERS = {"launch_us": 3.0, "memory": 0.25} | ORIGIN
OTHERS = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")
MEASURED = device(
    constants={
        "matrix_products": {"bf16": BF16_PRODUCTS},
        "attention": {"bf16": {"compute": 0.5} | ORIGIN},
        "memory_bound": dict.fromkeys(OTHERS, OF_OTHERS),
    }
)
STAGES = Plan(pp=3)
SENT = 8 * BF16 / GB_S
"""Seconds of the hidden states of one token between two stages, at the rate of a link."""


def staged(phase, plan=STAGES, on=None, **changes):
    clock, *_ = on or device()
    linked = TimingDevice(clock, Fabric("ours", 1, 1))
    return predict_pass(decoder(), settings(phase, **changes), linked, plan, IN_PLACE)


def of_places(prediction):
    """Seconds of one layer, and of what comes before and after all three."""
    seconds = {"layers": 0.0, "before": 0.0, "after": 0.0}
    for row in prediction.rows:
        end = "before" if row.path.startswith(("positions", "embedding")) else "after"
        seconds["layers" if row.path.startswith("layers") else end] += row.seconds.floor
    return seconds["layers"] / LAYERS, seconds["before"], seconds["after"]


def test_a_token_passes_the_stages_one_after_the_other():
    """One sequence: the kernels of one device, and two sends of D numbers; the others wait."""
    one = predict_pass(decoder(), settings("decode", batch_size=1), device(), Plan(), IN_PLACE)
    found = staged("decode", batch_size=1)
    assert found.seconds.floor == pytest.approx(one.seconds.floor + 2 * SENT, rel=1e-9)
    assert found.bubble_s == 0
    [sent] = found.communication
    assert (sent.timed.collective.name, sent.timed.collective.times) == ("send", 2)


def test_as_many_batches_are_in_flight_as_stages():
    """Three sequences, one in each stage: a round takes three times as long as the last, with the head."""
    layer, before, after = of_places(
        predict_pass(decoder(), settings("decode", batch_size=1), device(), Plan(), IN_PLACE)
    )
    found = staged("decode", batch_size=3)
    slowest = max(before + layer + SENT, layer + SENT, layer + after)
    assert found.seconds.floor == pytest.approx(3 * slowest, rel=1e-9)
    way = before + 3 * layer + after + 2 * SENT
    assert found.bubble_s == pytest.approx(3 * slowest - way, rel=1e-6)
    assert found.tokens == 3
    # the same work as on one device
    assert found.model_flops == staged("decode", Plan(), batch_size=3).model_flops


def test_a_prefill_fills_the_stages():
    """Three sequences: the slowest stage computes each in turn, beside the way through the others."""
    layer, before, after = of_places(
        predict_pass(decoder(), settings("prefill", batch_size=1), MEASURED, Plan(), IN_PLACE)
    )
    found, one = staged("prefill", on=MEASURED), staged("prefill", on=MEASURED, batch_size=1)
    assert found.seconds.expected > one.seconds.expected
    assert found.seconds.floor <= 3 * max(before + layer, layer + after) + 3 * PROMPT * SENT
    assert found.seconds.floor < found.seconds.expected
    assert found.bubble_s > 0


def test_ranks_of_a_stage_send_their_part():
    """Of two ranks with the same hidden states each sends half, and those of the next stage gather it."""
    found = staged("decode", Plan(tp=2, pp=3), batch_size=1)
    sent = {part.timed.collective.name: part.timed.collective for part in found.communication}
    of_stages = [part for part in found.communication if part.timed.collective.purpose == "stages"]
    assert {(part.timed.collective.name, part.timed.collective.bytes) for part in of_stages} == {
        ("send", 2 * 8 * BF16 / 2),
        ("all_gather", 2 * 8 * BF16 / 2),
    }
    assert sent["all_reduce"].group.ranks == 2
