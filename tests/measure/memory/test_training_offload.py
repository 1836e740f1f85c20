"""Offload in training: bytes of both sides by hand, torch's peaks, DeepSpeed's formulas and example."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.wings.serving.memory.offload import Offload
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import highest
from archcli.wings.serving.memory.training.step import training_step
from offloaded_peaks import offloaded_peak
from table import every_row

KIB, GIB = 1024, 2**30
BF16, FP32, STEP = 2, 4, 4


def totals(model, offload=None, **options):
    return archcli.count_memory(model, "train", offload=offload, **options).totals


def test_the_optimizer_in_ram_by_hand():
    """llama-3.2-1b: masters, moments and gradients in fp32, 4 + 8 + 4 bytes a weight, and a copy of 2."""
    weights, tensors = 1_235_814_400, 16 * 9 + 2
    found = totals("llama-3.2-1b", "optimizer", recompute="layer")
    assert found["offload"]["in_ram"] == {
        "weights": BF16 * weights,
        "gradients": FP32 * weights,
        "optimizer": 12 * weights + STEP * tensors,
    }
    moments = {moment["moment"]: moment["parts"] for moment in found["moments"]}
    assert moments["optimizer step"] == {**dict.fromkeys(moments["loss"], 0), "weights": BF16 * weights}
    # the whole gradient of the table, that of the largest weight, is on the device while it is made
    assert all(parts["gradients"] == parts["optimizer"] == 0 for parts in moments.values())


def test_what_deepspeed_estimates():
    """`estimate_zero2_model_states_mem_needs` and that of ZeRO 3, without their factor of 1.5 for buffers.

    ZeRO 2: 2 bytes a parameter on the device, max(4 n, 16) of n devices in RAM; ZeRO 3 with parameters in RAM
    18 there. This counts the copy on its way to the device in both.
    """
    n = 1_235_814_400
    of_two = totals("llama-3.2-1b", "optimizer", dp=2, zero=2, ram="1TiB")
    assert of_two["parts"]["weights"] == 2 * n
    in_ram = of_two["offload"]["in_ram"]
    assert 16 * n <= in_ram["gradients"] + in_ram["optimizer"] <= 16 * n + KIB
    # each of two devices has a copy of its half
    assert in_ram["weights"] == 2 * n
    of_all = totals("llama-3.2-1b", "optimizer,parameters", dp=8, zero=3)
    assert 18 * n <= of_all["offload"]["ram_bytes"] <= 18 * n + 64 * KIB
    assert of_all["parts"]["weights"] == 0
    # FSDP2's shards are their own masters: parameters, gradients and two moments in fp32
    of_fsdp2 = totals("llama-3.2-1b", "optimizer,parameters", dp=8, zero=3, trainer="fsdp2")
    assert 16 * n <= of_fsdp2["offload"]["ram_bytes"] <= 16 * n + 64 * KIB


def test_ten_billion_weights_on_a_v100():
    """DeepSpeed's tutorial of ZeRO-Offload trains 50 layers of 4,096 on one V100 of 32 GB, batches of 10."""
    sizes = ["n_layers=50", "d_model=4096", "layer.attention.n_heads=32", "layer.ffn.d_ff=16384"]
    asked = {"recompute": "layer", "batch_size": 10, "seq_len": 1024, "dtype": "fp16", "attention": "eager"}
    model = load("gpt2", sizes).model
    without, offloaded = (
        totals(model, offload, device="v100-sxm-32gb", **asked) for offload in (None, "optimizer")
    )
    assert (without["fits"], offloaded["fits"]) == (False, True)
    assert offloaded["parts"]["weights"] == 2 * 10_279_047_168


MODELS = {"llama-3.2-1b": 5, "qwen3-8b": 3, "gpt2": 4, "qwen2.5-0.5b": 6, "gemma-2b": 4}
PEAKS = [
    (name, changes, recompute, parts)
    for name in MODELS
    for changes in (["vocab_size=512"], [])
    for recompute in ("none", "layer", "layers.*.ffn")
    for parts in (("activations",), ("optimizer",), ("optimizer", "activations"))
]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("name", "changes", "recompute", "parts"), PEAKS)
def test_the_peak_is_that_of_torch(name, changes, recompute, parts):
    """Saved tensors give up their storage, gradients leave when they are complete."""
    spec = load(name, [f"n_layers={MODELS[name]}", *changes]).model
    rule = "adamw" if "optimizer" in parts else "sgd"
    asked = MemorySettings("train", 2, 300, optimizer=rule, recompute=recompute, offload=Offload(parts=parts))
    peak = highest(it for it in training_step(spec, asked).moments if it.stage != "optimizer step")
    theirs = offloaded_peak(spec, 2, 300, parts, recompute=recompute)
    # tables of rotation reach a recomputed layer in a tuple, which checkpoint() holds on the device
    tables = 300 * 256 * FP32 if recompute != "none" else 0
    assert abs(peak.bytes - peak.weights - theirs) <= 2 * KIB + tables


def test_inputs_of_layers_in_ram_by_hand():
    """Of 36 layers of qwen3-8b the inputs lie in RAM, 131,072 tokens of 4,096; a layer's comes back.

    TRL's example of a million tokens on 8 H100 reports 56.2 GB a device with these offloaded.
    """
    asked = {"cp": 8, "zero": 3, "seq_len": 2**20, "recompute": "layer", "loss": "chunked:128"}
    whole, less = (totals("qwen3-8b", it, device="8xh100-sxm", **asked) for it in (None, "activations"))
    inputs = 36 * 131_072 * 4096 * BF16
    in_ram = less["offload"]["in_ram"]["activations"]
    # beside them the table's output, norms' statistics and tables of rotation
    assert 8 * inputs < in_ram < 8 * 1.04 * inputs
    assert whole["peak_bytes"] - less["peak_bytes"] > 35 * inputs / 36 - 2 * GIB
    assert (whole["fits"], less["fits"]) == (False, True)
    by_fsdp2 = totals("qwen3-8b", "activations", device="8xh100-sxm", trainer="fsdp2", **asked)
    assert less["peak_bytes"] < 56.2e9 < by_fsdp2["peak_bytes"] < 1.05 * 56.2e9


def test_parameters_come_layer_by_layer():
    """On one device two layers of llama-3.2-1b and its table are there; the rest lies in RAM."""
    layer = 2 * 2048 + 2048 * (2048 + 2 * 512) + 2048 * 2048 + 3 * 2048 * 8192
    ends = 128_256 * 2048 + 2048
    found = totals("llama-3.2-1b", "parameters", optimizer="sgd")
    assert found["parts"]["weights"] == 0
    gathered = {moment["moment"]: moment["parts"]["gathered"] for moment in found["moments"]}
    assert gathered["loss"] == BF16 * ends
    assert gathered["backward"] <= BF16 * (ends + 2 * layer)
    assert found["offload"]["in_ram"] == {"weights": BF16 * (16 * layer + ends)}


@pytest.mark.long
def test_ram_is_of_a_node_and_decides():
    asked = {"offload": "optimizer", "recompute": "layer", "dp": 16, "zero": 3, "device": "16xh100-sxm"}
    found = totals("qwen3-8b", **asked)
    record = found["offload"]
    assert (record["devices"], record["ram_limit_bytes"], found["fits"]) == (8, None, True)
    # half of the model's 18 bytes a weight: the other node has the rest
    assert record["ram_bytes"] == pytest.approx(9 * 8_190_735_360, rel=1e-3)
    short = archcli.count_memory("qwen3-8b", "train", **asked, ram="64GiB")
    assert (short.totals["fits"], short.totals["verdict"], short.totals["change"]) == (False, "no", None)
    assert "68.7 GiB in RAM of 64.0 GiB" in short.headline
    assert totals("qwen3-8b", **asked, ram="80GiB")["fits"]
    alone = {"offload": "optimizer", "device": "rtx-4090", "ram": "10GiB"}
    for what in ("recompute", "batch"):
        assert totals("llama-3.2-1b", **alone, fit=what)["fit"]["value"] is None
    # a node has 8 of 17: 9.75 GiB; 8 of 16 would be 10.4
    assert 8 / 17 * 18 * 1_235_814_400 < 10 * GIB < 8 / 16 * 18 * 1_235_814_400
    assert totals("llama-3.2-1b", **alone, fit="devices")["fit"]["value"] == 17


def test_experts_of_one_device_leave_one_by_one():
    """With ep 2 no other device has these experts: their gradients are on the device while they are made."""
    asked = {"offload": "optimizer", "dp": 2, "zero": 3, "ep": 2, "recompute": "layer"}
    found = totals("mixtral-8x7b", **asked)
    backward = next(moment for moment in found["moments"] if moment["moment"] == "backward")
    assert backward["parts"]["temporaries"] > 4 * 4096 * 14336 * BF16


REFUSED = [
    ({"offload": "experts"}, "no part of a training step"),
    ({"offload": "nvme"}, "no part of a training step"),
    ({"offload": "optimizer,"}, "no part of a training step"),
    ({"offload": "optimizer", "optimizer": "sgd"}, "sgd has none"),
    ({"offload": "optimizer", "optimizer": "adam8bit"}, "no step on the host"),
    ({"offload": "optimizer", "dp": 8}, "of ZeRO 2 or 3"),
    ({"offload": "parameters", "dp": 8, "zero": 2}, "as ZeRO 3 does"),
    ({"offload": "parameters", "pp": 2}, "as ZeRO 3 does"),
    ({"offload": "activations", "backend": "cpu"}, "no other memory"),
    ({"offload": "activations", "device": "m3-max"}, "no other memory"),
    ({"offload": "optimizer", "phase": "serve"}, "is of training"),
    ({"ram": "1TiB"}, "left out"),
]


@every_row(("options", "expected"), REFUSED)
def test_what_is_refused(options, expected):
    with pytest.raises(ArchError) as raised:
        archcli.count_memory("llama-3.2-1b", **options)
    assert expected in str(raised.value)
