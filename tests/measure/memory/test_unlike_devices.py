"""Unlike devices: layers by free bytes as llama.cpp has them, memory, verdict and time of each."""

import pytest

from archcli import fit, load, memory, predict
from archcli.errors import ArchError
from archcli.wings.serving.devices.budget import each_of
from archcli.wings.serving.memory.pipeline import stages_of
from archcli.wings.serving.memory.plan import Plan
from table import every_row

GIB = 2**30


def layers(split, n_layers):
    stages = stages_of(Plan(pp=len(split)), n_layers, with_head=True, split=split)
    return [(stage.groups[0].start, stage.groups[0].stop) for stage in stages]


def by_llamacpp(split, n_layers):
    """Layer il is on the first device whose running share of the bytes is more than il / (n_layers + 1)."""
    shares = [sum(split[: i + 1]) / sum(split) for i in range(len(split))]
    return [
        next(i for i, share in enumerate(shares) if share > il / (n_layers + 1)) for il in range(n_layers)
    ]


@every_row(
    ("split", "n_layers", "expected"),
    [
        ((24, 12), 80, [(0, 54), (54, 80)]),  # 54 / 81 is 24 / 36
        ((12, 24), 80, [(0, 27), (27, 80)]),
        ((32, 24), 80, [(0, 47), (47, 80)]),  # 32 / 56 of 81 is 46.3
        ((24, 24, 16), 32, [(0, 13), (13, 25), (25, 32)]),
        ((1, 1), 32, [(0, 17), (17, 32)]),
        ((100, 1), 4, [(0, 3), (3, 4)]),  # llama.cpp would leave the head alone on the second
    ],
)
def test_layers_by_free_bytes(split, n_layers, expected):
    assert layers(split, n_layers) == expected


@pytest.mark.parametrize("split", [(23.7, 11.8), (31.3, 23.7), (23.7, 23.7, 15.6), (8, 12, 16, 24)])
def test_as_llamacpp_assigns_them(split):
    split = tuple(round(size * GIB) for size in split)
    for n_layers in (28, 32, 48, 80):
        devices = by_llamacpp(split, n_layers)
        assert layers(split, n_layers) == [
            (devices.index(i), n_layers - devices[::-1].index(i)) for i in range(len(split))
        ]


def test_as_a_log_has_them():
    """Command R on RTX 4070 Ti and RTX 3090 Ti, ggml-org/llama.cpp#6122: caches of 1,536 and 3,584 MiB.

    64 heads of 128 in fp16, 4,096 tokens: 128 MiB a layer, so that 12 and 28 layers are on the cards. The log
    does not say what was free: of 12 and 24 GB it would be 14, so a desktop had 2.5 GiB of the first.
    """
    of_layer = 2 * 64 * 128 * 2 * 4096
    held = [1536 * 2**20 // of_layer, 3584 * 2**20 // of_layer]
    assert held == [12, 28]
    assert layers((12 * GIB, 24 * GIB), 40) == [(0, 14), (14, 40)]
    assert layers((round(9.5 * GIB), round(23.5 * GIB)), 40) == [(0, held[0]), (held[0], 40)]


@every_row(
    ("text", "devices"),
    [
        ("3090+4090", ("3090", "4090")),
        ("2x3090+4090", ("3090", "3090", "4090")),
        ("RTX 5090 and RTX 4090", ("RTX 5090", "RTX 4090")),
        ("rtx-5090,rtx-4090", ("rtx-5090", "rtx-4090")),
        ("3090 + 3090", ("2x3090",)),
        ("2x3090+3090", ("3x3090",)),
        ("24GB, 1008GB/s", ("24GB, 1008GB/s",)),
        ("h100-sxm", ("h100-sxm",)),
        ("nothing+none", ("nothing+none",)),
    ],
)
def test_names(text, devices):
    assert each_of(text) == devices


def test_equal_devices_are_as_before():
    joined, counted = (
        memory("llama-3.1-8b", "serve", device=device, engine="llamacpp", dtype="q4_k_m").totals
        for device in ("rtx-3090+3090", "2xrtx-3090")
    )
    assert joined == counted


def test_each_has_its_share_and_its_verdict():
    """24 and 12 GB: 54 and 26 of 80 layers, a little less than 2 / 3 as drivers count the bytes."""
    report = memory("llama-3.1-70b", "serve", device="3090+3060", dtype="q4_k_m", seq_len=2048)
    ranks = {rank["device"]: rank for rank in report.totals["ranks"]}
    assert set(ranks) == {"rtx-3090", "rtx-3060"}
    weights = [ranks[name]["parts"]["weights"] for name in ("rtx-3090", "rtx-3060")]
    assert 1.9 < weights[0] / weights[1] < 2.3
    assert [rank["fits"] for rank in ranks.values()] == [False, False]
    assert report.totals["fits"] is False
    smaller = memory("llama-3.1-70b", "serve", device="3090+3060", dtype="iq3_xxs", seq_len=2048)
    assert smaller.totals["fits"] is True
    assert all(rank["fits"] for rank in smaller.totals["ranks"])


def test_time_is_the_sum_of_the_cards():
    """Layers of a slow card take its time: between both cards alone, and nearer to the slow one's."""
    options = {"engine": "llamacpp", "dtype": "q4_k_m", "past": 512}
    slow, fast, both = (
        predict("llama-3.1-8b", device, **options).totals["time_s"]["expected"]
        for device in ("rtx-3060", "rtx-4090", "rtx-3060+rtx-4090")
    )
    # 11 of 33 layers and heads by 12 of 36 GB
    share = 12 / 36
    assert fast < both < slow
    assert both == pytest.approx(share * slow + (1 - share) * fast, rel=0.05)
    turned = predict("llama-3.1-8b", "rtx-4090+rtx-3060", **options).totals["time_s"]["expected"]
    assert turned == pytest.approx(both, rel=0.1)


@pytest.mark.long
def test_fit_takes_them():
    report = fit("llama-3.1-70b", "3090+4090")
    assert (report.totals["fits"], report.totals["engine"], report.totals["devices"]) == (True, "llamacpp", 2)
    assert report.totals["plan"]["pp"] == 2
    assert "rtx-3090 + rtx-4090" in report.headline
    of_size = {"where": ("params in 68B..72B",)}
    assert (
        fit(None, "3090", **of_size).totals["fitting"] < fit(None, "3090+4090", **of_size).totals["fitting"]
    )


def test_the_model_is_whole():
    """The weights of both are those of one device with all of them, but for the table in RAM."""
    model = load("llama-3.1-8b")
    both = memory(model, "serve", device="3090+4090", engine="llamacpp").totals["ranks"]
    one = memory(model, "serve", device="rtx-4090", engine="llamacpp").totals["ranks"]
    assert sum(rank["parts"]["weights"] for rank in both) == one[0]["parts"]["weights"]


@every_row(
    ("ask", "options", "what"),
    [
        (predict, {"device": "m3-max+4090"}, "m3-max and rtx-4090 do not join"),
        (predict, {"device": "4090+epyc-9654"}, "epyc-9654 and rtx-4090 do not join"),
        (predict, {"device": "3090+4090", "engine": "vllm"}, "vLLM takes equal devices"),
        (predict, {"device": "3090+4090", "tp": 2}, "--tp splits layers"),
        (memory, {"device": "3090+4090"}, "training takes equal devices"),
        (memory, {"device": "3090+4090", "phase": "serve", "fit": "devices"}, "counts equal devices"),
        (predict, {"device": "3090+4090", "fit": "time"}, "--fit time compares plans of equal devices"),
        (predict, {"device": "3090+4090", "offload": "auto"}, "--offload is of equal devices"),
        (predict, {"device": "3090+4090", "nodes": 2}, "--nodes 2 spreads equal devices"),
        (predict, {"device": "3090+foo"}, "no device 'foo'"),
        (predict, {"device": "12x3090+12x4090"}, "more than 16 unlike devices"),
    ],
)
def test_refused(ask, options, what):
    with pytest.raises(ArchError) as caught:
        ask("llama-3.1-8b", **options)
    assert what in str(caught.value)
    assert caught.value.problems[0].hint


def test_a_verdict_is_on_the_card_with_the_fewest_bytes_left():
    """An RTX 3060 beside an RTX 5090: tight by its own 11.8 GiB, though the mean of both is 21.5."""
    asked = {"phase": "serve", "dtype": "q8_0", "device": "rtx-5090+rtx-3060"}
    found = {n: memory("qwen2.5-32b", seq_len=n, **asked) for n in (8192, 38000, 42000)}
    assert [report.totals["verdict"] for report in found.values()] == ["fits", "tight", "no"]
    assert any(note.startswith("Tight: ") and "of 11.8 GiB are left" in note for note in found[38000].notes)
