"""Constants that engines/*.yaml state: more work is never faster; at most eight a kernel; a lender."""

from itertools import pairwise

import pytest

from archcli.arith import touched
from archcli.wings.serving.devices.engines import load_kernels, measured_engines
from archcli.wings.serving.predict.engine_kernels import attention, delta_net, exchange, experts, latent
from archcli.wings.serving.predict.engine_kernels.choice import (
    BORROWED,
    GENERATIONS,
    NamedDevice,
    entry_for,
    lender,
    range_of,
)
from archcli.wings.serving.predict.engine_kernels.terms import KernelDevice
from table import sampled_rows

DEVICE = KernelDevice(peak=1e15, bandwidth=2e12, cache=50e6, processors=100, link=4e11)
MOST_NUMBERS = 8
TEXTS = {"kernel", "dtype", "cache", "version", "rows", "error", "low", "high", "widths"}
ENTRIES = [
    (engine, device, operation, entry)
    for engine in measured_engines()
    for device, operations in load_kernels(engine).items()
    for operation, entries in operations.items()
    for entry in entries
]


def doublings(make, start, end):
    return [make(2**power) for power in range(start, end)]


def attended(heads, width, window):
    return lambda batch: attention.HeadsCall(heads, 4, width, window, batch, 700)


CALLS = {
    "attention_prefill": (
        attention.PrefillConstants,
        attention.prefill_seconds,
        [
            calls
            for heads, width, window in ((32, 128, 0), (8, 64, 128), (4, 192, 0), (40, 256, 0))
            for calls in (
                [attention.HeadsCall(heads, 4, width, window, 2, length) for length in range(50, 4000, 37)],
                doublings(
                    lambda batch, h=heads, d=width, w=window: attention.HeadsCall(h, 4, d, w, batch, 700),
                    0,
                    9,
                ),
            )
        ],
    ),
    "attention_decode": (
        attention.DecodeConstants,
        attention.decode_seconds,
        [
            calls
            for heads, width, window in ((32, 128, 0), (8, 64, 128), (4, 192, 0), (40, 256, 0))
            for calls in (
                [attention.HeadsCall(heads, 4, width, window, 8, length) for length in range(1, 70000, 511)],
                doublings(
                    lambda batch, h=heads, d=width, w=window: attention.HeadsCall(h, 4, d, w, batch, 700),
                    0,
                    12,
                ),
            )
        ],
    ),
    "latent_prefill": (
        latent.LatentPrefillConstants,
        latent.latent_prefill_seconds,
        [
            [latent.LatentCall(16, 2, length) for length in range(1, 4000, 37)],
            doublings(lambda batch: latent.LatentCall(16, batch, 500), 0, 9),
            doublings(lambda heads: latent.LatentCall(heads, 4, 500), 0, 8),
        ],
    ),
    "latent_decode": (
        latent.LatentDecodeConstants,
        latent.latent_decode_seconds,
        [
            [latent.LatentCall(16, 2, length) for length in range(1, 70000, 511)],
            doublings(lambda batch: latent.LatentCall(16, batch, 500), 0, 12),
            doublings(lambda heads: latent.LatentCall(heads, 4, 500), 0, 8),
        ],
    ),
    "latent_product": (
        latent.LatentProductConstants,
        latent.latent_product_seconds,
        [
            doublings(lambda tokens: latent.LatentProductCall(16, tokens, 128, 512), 0, 15),
        ],
    ),
    "experts": (
        experts.ExpertsConstants,
        experts.experts_seconds,
        [
            doublings(
                lambda tokens, ep=ep: experts.ExpertsCall(
                    4096, 768, 3, touched(128, 8, tokens) / ep, tokens * 8 / ep, tokens * 8
                ),
                0,
                16,
            )
            for ep in (1, 8)
        ],
    ),
    **dict.fromkeys(
        ("collective_graph", "collective_host"),
        (
            exchange.ExchangeConstants,
            exchange.exchange_seconds,
            [
                *(
                    doublings(lambda size, n=ranks: exchange.ExchangeCall(n, size), 8, 31)
                    for ranks in (2, 4, 8)
                ),
                doublings(lambda ranks: exchange.ExchangeCall(ranks, 1 << 20), 1, 5),
            ],
        ),
    ),
    **{
        f"{op}_prefill": (
            delta_net.DeltaConstants,
            seconds,
            [
                [delta_net.DeltaCall(16, 32, 2, length) for length in range(1, 4000, 37)],
                doublings(lambda batch: delta_net.DeltaCall(16, 32, batch, 500), 0, 9),
            ],
        )
        for op, seconds in (
            ("convolution", delta_net.convolution_prefill_seconds),
            ("recurrence", delta_net.recurrence_prefill_seconds),
        )
    },
    **{
        f"{op}_decode": (
            delta_net.DeltaConstants,
            seconds,
            [
                [delta_net.DeltaCall(16, 32, batch) for batch in range(1, 1100, 7)],
            ],
        )
        for op, seconds in (
            ("convolution", delta_net.convolution_decode_seconds),
            ("recurrence", delta_net.recurrence_decode_seconds),
        )
    },
}


@sampled_rows("operation", CALLS, 4)
def test_more_work_is_never_faster(operation):
    constants, seconds, series = CALLS[operation]
    faster = []
    for engine, device, name, entry in ENTRIES:
        if name != operation:
            continue
        known = constants(**{key: entry[key] for key in constants._fields if key in entry})
        for calls in series:
            times = [seconds(known, call, DEVICE) for call in calls]
            assert all(time > 0 for time in times)
            if any(later < earlier * (1 - 1e-9) for earlier, later in pairwise(times)):
                faster.append((engine, device, entry["kernel"]))
    assert not faster


def test_every_entry_states_at_most_eight_numbers_that_its_kernel_has():
    wrong = []
    for engine, device, operation, entry in ENTRIES:
        numbers = {key for key, value in entry.items() if key not in TEXTS and value is not True}
        if len(numbers) > MOST_NUMBERS or not {*entry} - TEXTS <= {*CALLS[operation][0]._fields}:
            wrong.append((engine, device, operation, entry["kernel"]))
    assert not wrong
    assert {engine for engine, *_ in ENTRIES} == {*measured_engines()}


def test_every_entry_says_where_it_is_from():
    assert all(
        entry["rows"] > 0 and entry["version"] and 0 < entry["low"] <= entry["high"] for *_, entry in ENTRIES
    )


def test_the_kernel_is_the_one_that_was_measured_at_this_width():
    entries = [
        {"kernel": "a", "dtype": "bf16", "cache": "bf16", "rows": 9, "widths": ["64", "128"]},
        {"kernel": "b", "dtype": "bf16", "cache": "bf16", "rows": 5, "widths": ["128", "128w"]},
        {"kernel": "c", "dtype": "bf16", "cache": "fp8", "rows": 99, "widths": ["128"]},
    ]
    bf16 = {"dtype": "bf16", "cache": "bf16"}
    assert entry_for(entries, bf16, "128")["kernel"] == "a"
    assert entry_for(entries, bf16, "128w")["kernel"] == "b"
    assert entry_for(entries, {"kernel": "b", **bf16})["kernel"] == "b"
    assert entry_for(entries, {"dtype": "bf16", "cache": "fp8"}, "64")["kernel"] == "c"
    assert entry_for([], bf16) is None


def test_a_device_without_a_table_has_the_constants_of_its_generation():
    measured = [
        NamedDevice("h100-sxm", "sm_90", 3350),
        NamedDevice("h200-sxm", "sm_90", 4800),
        NamedDevice("b200-sxm", "sm_100", 7700),
    ]
    assert lender(measured[1], measured).name == "h200-sxm"
    assert lender(NamedDevice("gh200-96gb", "sm_90", 4000), measured).name == "h100-sxm"
    assert lender(NamedDevice("h100-pcie", "sm_90", 2000), measured).name == "h100-sxm"
    assert lender(NamedDevice("b300-sxm", "sm_103", 7750), measured).name == "b200-sxm"
    assert lender(NamedDevice("rtx-5090", "sm_120", 1792), measured) is None
    assert GENERATIONS["sm_100"] != GENERATIONS["sm_120"]


def test_a_device_of_the_same_architecture_lends_before_others_of_the_generation():
    """An RTX 3070 has more of an A40 than of an A100, whose bandwidth is further off or nearer."""
    measured = [NamedDevice("a100-sxm-80gb", "sm_80", 2039), NamedDevice("a40", "sm_86", 696)]
    assert lender(NamedDevice("rtx-3070", "sm_86", 448), measured).name == "a40"
    assert lender(NamedDevice("fast", "sm_86", 2000), measured).name == "a40"
    assert lender(NamedDevice("rtx-3070", "sm_86", 448), measured[:1]).name == "a100-sxm-80gb"


def test_a_borrowed_range_is_wider():
    entry = {"low": 0.9, "high": 1.2}
    assert range_of(entry, borrowed=False) == (0.9, 1.2)
    assert range_of(entry, borrowed=True) == pytest.approx((0.9 / BORROWED, 1.2 * BORROWED))
