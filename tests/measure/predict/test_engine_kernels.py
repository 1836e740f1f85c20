"""Times of engines' kernels: worked out by hand; more work is never faster, with any constants stated."""

import math

import pytest

from archcli.arith import touched
from archcli.wings.serving.predict.engine_kernels import attention, delta_net, exchange, experts, latent
from archcli.wings.serving.predict.engine_kernels.terms import KernelDevice, joined, moved, width_factor

DEVICE = KernelDevice(peak=1e15, bandwidth=2e12, cache=50e6, processors=100, link=4e11)


def test_bytes_within_l2_and_beyond():
    assert moved(40e6, 4, 0.5, DEVICE) == pytest.approx(40e6 / 4 / 1e12)
    assert moved(90e6, 4, 0.5, DEVICE) == pytest.approx((50e6 / 4 + 40e6) / 1e12)


def test_factors_of_head_widths():
    assert [width_factor(width, 1.5, 1.2) for width in (64, 128, 256, 512)] == pytest.approx(
        [1.5, 1, 1.2, 1.44]
    )


def prefill(window=0, **constants):
    known = attention.PrefillConstants(call_us=10, compute=0.5, block=1, memory=0.5, **constants)
    return attention.prefill_seconds(known, attention.HeadsCall(32, 8, 128, window, 2, 256), DEVICE)


def test_prefill_by_hand():
    key = 4 * 64 * 128
    work, longest = key * (64 + 128 + 192 + 256) * 32 * 2, key * 256 * 100
    products = (work**1.5 + longest**1.5) ** (1 / 1.5) / 5e14
    size = 2 * 2 * 256 * 128 * (2 * 32 + 8 * 2)
    assert prefill() == pytest.approx(10e-6 + products + size / 1e12)


def test_prefill_with_a_window_by_hand():
    key, size = 4 * 64 * 128, 2 * 2 * 256 * 128 * (2 * 32 + 8 * 2)
    # the third and the fourth tile see the window's 100 keys and their own 64
    work, longest = key * (64 + 128 + 164 + 164) * 32 * 2, key * 164 * 100
    products = (work**1.5 + longest**1.5) ** (1 / 1.5) / 5e14
    near = 10e-6 + products + size / 1e12
    # the walk counts the rise to 164 keys as one line
    assert prefill(window=100) == pytest.approx(near, rel=0.02)
    assert prefill(window=100, masked=1) == pytest.approx(prefill())
    assert prefill(window=100) < prefill()


def test_decode_by_hand():
    known = attention.DecodeConstants(
        call_us=9, memory=0.8, wave_us=2, block=1.5, cached=2, compute=0.1, queries=1, chunk=256, splits=16
    )
    call = attention.HeadsCall(32, 8, 128, 0, 64, 8192, 2)
    key = 2 * 128 * 2
    size = 64 * 8 * 8192 * key + 4 * 64 * 32 * 128
    read = (50e6 / 2 + size - 50e6) / 1.6e12
    longest = 8192 / 16 * key * 1.5 * 100 / 1.6e12
    products = 4 * 64 * 32 * 128 * 8192 / 1e14
    expected = 9e-6 + 2e-6 * 64 * 8 / 100 + math.hypot(read, longest, products)
    assert attention.decode_seconds(known, call, DEVICE) == pytest.approx(expected)


def test_decode_with_a_window_reads_no_more_than_the_window():
    known = attention.DecodeConstants(call_us=9, memory=0.8, window_us=3)
    near, far = (
        attention.decode_seconds(known, attention.HeadsCall(32, 8, 128, window, 64, length), DEVICE)
        for window, length in ((0, 512), (512, 100_000))
    )
    assert far == pytest.approx(near + 3e-6)


def test_decode_of_heads_apart_reads_the_cache_once_a_query_head():
    known = attention.DecodeConstants(call_us=0, memory=1, block=0, apart=True)
    of = {
        window: attention.decode_seconds(known, attention.HeadsCall(32, 8, 128, window, 64, 8192), DEVICE)
        for window in (0, 4096)
    }
    key = 2 * 128 * 2
    assert of[0] == pytest.approx(64 * 8 * 8192 * key / 2e12)
    assert of[4096] == pytest.approx(64 * 32 * 4096 * key / 2e12)


def test_latent_prefill_by_hand():
    known = latent.LatentPrefillConstants(call_us=15, compute=0.5, memory=0.5)
    call = latent.LatentCall(heads=16, batch=2, length=128)
    work = 2 * (192 + 128) * 64 * (64 + 128) * 16 * 2 / 5e14
    size = 2 * 128 * 2 * (16 * 2 * (192 + 128) + 576)
    assert latent.latent_prefill_seconds(known, call, DEVICE) == pytest.approx(15e-6 + work + size / 1e12)
    absorbed = known._replace(absorbed=True, memory=math.inf)
    work = 2 * (576 + 512) * 64 * (64 + 128) * 16 * 2 / 5e14
    assert latent.latent_prefill_seconds(absorbed, call, DEVICE) == pytest.approx(15e-6 + work)


def test_latent_decode_by_hand():
    known = latent.LatentDecodeConstants(call_us=12, memory=0.8, wave_us=3, compute=0.5, queries=1)
    call = latent.LatentCall(heads=128, batch=32, length=4096)
    key = 576 * 2
    read = (32 * (4096 * key + 2 * 128 * 1088)) / 1.6e12
    longest = 256 * key * 100 / 1.6e12
    products = 2 * 1088 * 32 * 128 * 4096 / 5e14
    work = 3e-6 * 32 * 2 / 100 + math.hypot(read, longest, products)
    assert latent.latent_decode_seconds(known, call, DEVICE) == pytest.approx(12e-6 + work)
    hidden = latent.latent_decode_seconds(known._replace(overlapped=True), call, DEVICE)
    assert hidden == pytest.approx((12e-6**4 + work**4) ** 0.25)


def test_a_latent_is_read_once_for_all_heads():
    known = latent.LatentDecodeConstants(call_us=0, memory=1, block=0)
    one, many = (
        latent.latent_decode_seconds(known, latent.LatentCall(heads, 8, 4096), DEVICE) for heads in (1, 128)
    )
    assert many == pytest.approx(one)


def test_products_that_absorb_by_hand():
    known = latent.LatentProductConstants(call_us=8, compute=0.5, memory=0.5)
    call = latent.LatentProductCall(heads=16, tokens=64, read=128, written=512)
    products = 2 * 16 * 64 * 128 * 512 / 5e14
    size = 2 * 16 * 64 * (128 + 512) + 2 * 16 * 128 * 512
    expected = 8e-6 + math.hypot(products, size / 1e12)
    assert latent.latent_product_seconds(known, call, DEVICE) == pytest.approx(expected)


def test_experts_by_hand():
    known = experts.ExpertsConstants(
        call_us=25, memory=0.8, compute=0.5, tile=64, activations=0.25, expert_us=0.1, foreign=0.5
    )
    call = experts.ExpertsCall(4096, 768, 3, touched=32, rows=8192, all_rows=16384)
    elements = 3 * 4096 * 768
    weights = 32 * elements * 2 / 1.6e12
    products = 2 * (8192 + 32 * 32) * elements / 5e14
    rows = 8192 + 0.5 * 8192
    activations = 2 * rows * (2 * 4096 + 3 * 768) / 0.5e12
    expected = 25e-6 + math.hypot(weights, products) + activations + 32 * 0.1e-6
    assert experts.experts_seconds(known, call, DEVICE) == pytest.approx(expected)


def test_an_expert_with_one_row_costs_a_tile():
    known = experts.ExpertsConstants(call_us=0, memory=math.inf, compute=1, tile=64)
    call = experts.ExpertsCall(4096, 768, 3, touched=8, rows=8, all_rows=8)
    assert experts.experts_seconds(known, call, DEVICE) == pytest.approx(2 * 8 * 64 * 3 * 4096 * 768 / 1e15)


def test_touched_experts_of_random_choices():
    assert touched(256, 8, 32) == pytest.approx(256 * (1 - (248 / 256) ** 32))
    assert touched(256, 8, 1) == pytest.approx(8)


def test_collectives_by_hand():
    known = exchange.ExchangeConstants(
        call_us=4, hop_us=0.5, one_shot=0.5, two_shot=0.8, start_us=8, far=2, crowd=1
    )
    small, large = exchange.ExchangeCall(8, 16384), exchange.ExchangeCall(8, 64e6)
    # eight ranks are two doublings of two, and 8 / 4 = 2 times as crowded as four
    assert exchange.exchange_seconds(known, small, DEVICE) == pytest.approx(
        4e-6 + 2 * 0.5e-6 + 7 * 16384 * 2 * 2 / (4e11 * 0.5)
    )
    assert exchange.exchange_seconds(known, large, DEVICE) == pytest.approx(
        8e-6 + 2 * 0.5e-6 + 2 * 7 / 8 * 64e6 * 2 * 2 / (4e11 * 0.8)
    )
    near = exchange.exchange_seconds(known, exchange.ExchangeCall(2, 16384), DEVICE)
    assert near == pytest.approx(4e-6 + 16384 / (4e11 * 0.5))


def test_a_delta_net_reads_and_writes_its_states_by_hand():
    known = delta_net.DeltaConstants(call_us=5, memory=0.9, cached=3, head_us=0.1, sequence_us=0.02)
    call = delta_net.DeltaCall(key_heads=16, value_heads=32, batch=64)
    state = 32 * 128 * 128 * 4
    size = 2 * 64 * state + 64 * 2 * ((2 * 16 + 32) * 128 + 32 * 128)
    # 134 MB of states, more than twice the 50 MB of L2
    moving, waves = size / 1.8e12, 0.1e-6 * 64 * 32 / 100
    expected = 5e-6 + 0.02e-6 * 64 + joined(moving, waves, 3)
    assert delta_net.recurrence_decode_seconds(known, call, DEVICE) == pytest.approx(expected)
    few = call._replace(batch=8)
    size = (2 * 8 * state + 8 * 2 * ((2 * 16 + 32) * 128 + 32 * 128)) / 3
    expected = 5e-6 + 0.02e-6 * 8 + joined(size / 1.8e12, 0.1e-6 * 8 * 32 / 100, 3)
    assert delta_net.recurrence_decode_seconds(known, few, DEVICE) == pytest.approx(expected)


def test_a_delta_net_over_prompts_by_hand():
    known = delta_net.DeltaConstants(
        call_us=20, memory=0.5, step_us=3, token_us=0.1, state=0.8, sequence_us=0.5
    )
    call = delta_net.DeltaCall(key_heads=16, value_heads=32, batch=4, length=1000)
    token = 2 * ((2 * 16 + 32) * 128 + 32 * 128)
    steps = math.hypot(3e-6 * 16, token * 4 * 1000 / 1e12)
    states = 4 * 2 * 32 * 128 * 128 * 4 / 1.6e12
    expected = 20e-6 + 0.1e-6 * 64 + 0.5e-6 * 4 + steps + states
    assert delta_net.recurrence_prefill_seconds(known, call, DEVICE) == pytest.approx(expected)
    channels = (2 * 16 + 32) * 128
    steps = math.hypot(3e-6 * 16, 4 * channels * 4 * 1000 / 1e12)
    states = 4 * 4 * 4 * channels / 1.6e12
    expected = 20e-6 + 0.1e-6 * 64 + 0.5e-6 * 4 + steps + states
    assert delta_net.convolution_prefill_seconds(known, call, DEVICE) == pytest.approx(expected)


def test_a_broken_formula_is_seen(monkeypatch):
    monkeypatch.setattr(attention, "joined", lambda first, second, power: first + second)
    for check in (test_prefill_by_hand, test_decode_by_hand):
        with pytest.raises(AssertionError):
            check()
