"""Offload in memory: bytes by hand, the least that fits, and what is refused."""

import pytest

import archcli
from archcli.wings.serving.memory.answers import offloading
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.parts import in_ram
from table import every_row

GIB = 2**30
BF16 = 2
ASKED = {"phase": "serve", "engine": "llamacpp", "seq_len": 1024}
MIXTURES = ("mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b", "deepseek-v2-lite", "llama-4-scout")
QUICK = ("gpt2", "gemma-2-2b", "mamba-130m", "gpt-oss-20b", "deepseek-v2-lite")
OTHERS = ("llama-3.1-8b", "qwen3-8b", "phi-4", "mixtral-8x7b", "qwen3-30b-a3b", "llama-4-scout")
MODELS = (*QUICK, *(pytest.param(model, marks=pytest.mark.long) for model in OTHERS))
"""Tied tables, windows, latents, recurrent states, dense first layers, shared experts."""


def memory(model, offload=None, **options):
    return archcli.count_memory(
        model, **{**ASKED, "offload": offload, "ram": "4TiB" if offload else None, **options}
    )


def device_parts(report):
    return report.totals["ranks"][0]["parts"]


LAYER = 2 * 4096 + 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
"""Weights of a layer of llama-3.1-8b: two norms, attention, and three matrices of 14,336."""
TABLE = 128_256 * 4096
CACHED = 2 * 8 * 128 * BF16


def test_layers_in_ram_by_hand():
    """10 of 32 layers of llama-3.1-8b with their cache; the device holds a matrix that is copied."""
    whole, less = memory("llama-3.1-8b"), memory("llama-3.1-8b", "layers:10")
    assert device_parts(whole)["weights"] - device_parts(less)["weights"] == 10 * LAYER * BF16
    assert device_parts(less)["cache"] == 22 * CACHED * 1024
    copied = 4096 * 14336 * BF16
    assert device_parts(less)["temporaries"] == device_parts(whole)["temporaries"] + copied
    offload = less.totals["offload"]
    in_ram = (10 * LAYER + TABLE) * BF16 + 10 * CACHED * 1024
    assert 0 <= offload["ram_bytes"] - in_ram < 200e6  # temporaries of a layer
    assert (offload["layers"], offload["experts"], offload["options"]) == (10, False, "-ngl 23")
    # a token's hidden state goes to the device once
    assert offload["bus_bytes_per_token"] == 4096 * 4


def test_experts_in_ram_by_hand():
    """Mixtral 8x7B: 32 layers of 8 experts with three matrices of 4,096 x 14,336."""
    whole, less = memory("mixtral-8x7b"), memory("mixtral-8x7b", "experts")
    of_layer = 8 * 3 * 4096 * 14336 * BF16
    assert device_parts(whole)["weights"] - device_parts(less)["weights"] == 32 * of_layer
    assert device_parts(less)["cache"] == device_parts(whole)["cache"]
    assert device_parts(less)["temporaries"] == device_parts(whole)["temporaries"] + of_layer // 3
    offload = less.totals["offload"]
    assert offload["ram_bytes"] == 32 * of_layer + 32_000 * 4096 * BF16
    assert (offload["layers"], offload["experts"], offload["options"]) == (0, True, "-ngl 33 --cpu-moe")
    # to the experts and back in each layer
    assert offload["bus_bytes_per_token"] == 32 * 2 * 4096 * 4
    some = memory("mixtral-8x7b", "experts:12").totals["offload"]
    assert some["ram_bytes"] == 12 * of_layer + 32_000 * 4096 * BF16
    assert (some["expert_layers"], some["options"]) == (12, "-ngl 33 --n-cpu-moe 12")


def test_a_prompt_copies_matrices_and_a_short_one_hidden_states():
    asked = {"offload": "layers:10", "phase": "prefill"}
    long, short = (
        memory("llama-3.1-8b", **asked, seq_len=n).totals["offload"]["bus_bytes_per_token"] for n in (512, 31)
    )
    assert long == 10 * LAYER * BF16 / 512
    assert short == 4096 * 4
    decoded = memory("llama-3.1-8b", "layers:10", phase="decode", batch_size=32).totals["offload"]
    assert decoded["bus_bytes_per_token"] == 10 * LAYER * BF16 / 32


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_not_on_the_device_is_in_ram(model):
    """The weights of both are the model's, but for a tied table that both have."""
    n_layers = sum(group.n_layers for group in archcli.load(model).groups)
    for offload in ("layers:1", f"layers:{n_layers}", *(["experts"] if model in MIXTURES else [])):
        whole, less = memory(model), memory(model, offload)
        taken = device_parts(whole)["weights"] - device_parts(less)["weights"]
        assert taken > 0
        assert less.totals["offload"]["ram_bytes"] >= taken


@pytest.mark.long
@pytest.mark.sample(2)
@pytest.mark.parametrize("phase", ["serve", "decode", "prefill"])
@pytest.mark.parametrize("model", MODELS)
def test_more_in_ram_never_needs_more_of_the_device(model, phase):
    n_layers = sum(group.n_layers for group in archcli.load(model).groups)
    numbers = sorted({0, 1, 2, 3, 4, n_layers // 2, n_layers - 1, n_layers})
    kinds = ["layers", *(["experts"] if model in MIXTURES else [])]
    for kind in kinds:
        reports = [memory(model, f"{kind}:{number}", phase=phase) for number in numbers]
        peaks = [
            memory(model, phase=phase).totals["peak_bytes"],
            *(one.totals["peak_bytes"] for one in reports),
        ]
        assert peaks == sorted(peaks, reverse=True)
        held = [one.totals["offload"]["ram_bytes"] for one in reports]
        assert held == sorted(held)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("model", "device", "kind"),
    [
        ("llama-3.1-70b", "rtx-3090", "layers"),
        ("llama-3.1-70b", "2xrtx-3060", "layers"),
        ("gpt-oss-120b", "rtx-4090", "experts"),
        ("mixtral-8x7b", "rtx-4060-ti-8gb", "experts"),
    ],
)
def test_auto_is_the_least_that_fits(model, device, kind):
    asked = {"device": device, "dtype": None if "oss" in model else "q4_k_m"}
    found = memory(model, "auto", **asked).totals
    number = found["offload"]["layers" if kind == "layers" else "expert_layers"]
    assert found["fits"]
    assert found["offload"]["experts"] is (kind == "experts")
    assert number > 1
    same = memory(model, f"{kind}:{number}", **asked).totals
    assert (same["fits"], same["peak_bytes"]) == (True, found["peak_bytes"])
    assert not memory(model, f"{kind}:{number - 1}", **asked).totals["fits"]


def test_auto_asks_what_the_device_lacks_alone(monkeypatch):
    """The line between none and all of 32 layers in RAM leads to the least; halving would try seven."""
    counted, tried = set(), set()
    part, ranks = in_ram.part_in_ram, MemoryQuestion.ranks

    def part_counted(known, settings):
        counted.add(settings.offload)
        return part(known, settings)

    def ranks_tried(question):
        tried.add(question.settings.offload)
        return ranks(question)

    monkeypatch.setattr(in_ram, "part_in_ram", part_counted)
    monkeypatch.setattr(MemoryQuestion, "ranks", ranks_tried)
    least = memory("llama-3.1-8b", "auto", memory="11GiB").totals["offload"]["layers"]
    assert 0 < least < 32
    assert {offload.layers for offload in counted} == {least}
    assert len(tried) <= 6


def test_formats_larger_than_device_and_ram_are_not_searched(monkeypatch):
    """540 B weights take 177 GB in 2.6 bits: no format fits 24 GiB and the 64 GiB of RAM that are offered."""
    searched, search = [], offloading.fewest
    monkeypatch.setattr(offloading, "fewest", lambda *of: searched.append(of) or search(*of))
    assert not archcli.fit("palm-540b", memory="24GiB").totals["fits"]
    assert len(searched) <= 1  # for the form that is published


def test_auto_leaves_nothing_where_all_fits():
    totals = memory("llama-3.1-8b", "auto", device="h100-sxm").totals
    assert (totals["offload"]["layers"], totals["offload"]["experts"], totals["fits"]) == (0, False, True)
    assert totals["peak_bytes"] == memory("llama-3.1-8b", device="h100-sxm").totals["peak_bytes"]


@pytest.mark.long
def test_where_experts_are_not_enough_layers_lie_in_ram_too():
    asked = {"dtype": "q4_k_m", "memory": "2GiB"}
    offload = memory("mixtral-8x7b", "auto", **asked, utilization=1).totals["offload"]
    assert offload["experts"]
    assert offload["layers"] > 0
    assert offload["options"].endswith("--cpu-moe")


def test_devices_share_the_layers_that_are_left():
    """60 layers and the head on 2 devices: 31 and 29."""
    ranks = memory("llama-3.1-70b", "layers:20", device="2xrtx-3090", dtype="q4_k_m").totals["ranks"]
    cached = [rank["parts"]["cache"] for rank in ranks]
    assert cached == [31 * CACHED * 1024, 29 * CACHED * 1024]


def test_memory_and_predict_agree():
    asked = {
        "phase": "decode",
        "seq_len": 1024,
        "dtype": "q4_k_m",
        "device": "rtx-3090",
        "offload": "layers:40",
    }
    memory, predict = (
        ask("llama-3.1-70b", **asked).totals for ask in (archcli.count_memory, archcli.predict)
    )
    assert memory["offload"] == predict["offload"]
    assert memory["peak_bytes"] + memory["beyond_bytes"] == predict["needed_bytes"]
    assert memory["fits"] is predict["fits"] is True


@pytest.mark.parametrize("ask", [archcli.count_memory, archcli.predict], ids=["memory", "predict"])
def test_a_part_in_ram_is_of_llamacpp_where_no_engine_is_named(ask):
    asked = {"phase": "decode", "device": "rtx-3090", "offload": "experts"}
    usual, named = (ask("gpt-oss-20b", **asked, **of).totals for of in ({}, {"engine": "llamacpp"}))
    assert usual == named


@every_row(
    ("options", "said"),
    [
        ({"offload": "layers:33"}, "layers:33 is more than the 32 layers"),
        ({"offload": "experts"}, "no routed experts"),
        ({"offload": "experts:3"}, "no routed experts"),
        ({"offload": "half"}, "'half' is no offload"),
        ({"offload": "layers"}, "'layers' is no offload"),
        ({"offload": "layers:-1"}, "is no offload"),
        ({"offload": "auto"}, "needs a device"),
        ({"offload": "layers:1", "engine": "vllm"}, "of llama.cpp, and the engine is vllm"),
        (
            {"offload": "layers:1", "phase": "train", "engine": None},
            "is no part of a training step",
        ),
        ({"offload": "layers:20", "ram": "4GiB"}, "takes 9.30 GiB, and --ram is 4.00 GiB"),
        ({"offload": "layers:1", "device": "m3-max"}, "m3-max has no other memory"),
        ({"offload": "layers:1", "ram_bandwidth": "80"}, "less than 0.1 GB/s"),
        ({"offload": "layers:1", "bus_bandwidth": "fast"}, "not an amount of memory"),
        ({"ram": "64GiB"}, "--ram is of --offload"),
        ({"offload": "auto", "memory": "100MiB"}, "does not fit"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(archcli.ArchError) as refused:
        archcli.count_memory("llama-3.1-8b", **{**ASKED, **options})
    assert said in str(refused.value)


def test_layers_that_share_keys_cannot_lie_apart():
    with pytest.raises(archcli.ArchError, match="cannot lie apart"):
        memory("gemma-3n-e4b", "layers:1")


def test_rates_are_said_as_they_are_typed():
    asked = {
        "offload": "layers:2",
        "ram": "32GB",
        "ram_bandwidth": "51.2GB/s",
        "bus_bandwidth": 12_500_000_000,
    }
    stated = memory("llama-3.1-8b", **asked).inputs["offload"]
    assert (stated["ram_bytes"], stated["ram_bytes_per_s"], stated["bus_bytes_per_s"]) == (
        32e9,
        51.2e9,
        12.5e9,
    )
