"""Products read matrices as they are stored: bytes worked out by hand, and what that does to decoding."""

from pathlib import Path

import pytest

import archcli
from archcli.graph.part import OpClass
from archcli.modules import GLU, Group, MixtureOfExperts
from archcli.modules.stored.quantization import Quantization, Rule
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.rank.kernels import NO_CHANGE, CacheUse, rank_kernels
from archcli.wings.serving.predict.rank.planned import planned_pass
from small import decoder, layer
from table import sampled_rows
from uneven import reached_by_power

REAL = Path(__file__).parents[2] / "load" / "huggingface" / "real_files"
B, D, F, V, LAYERS, EXPERTS, PER_TOKEN = 2, 16, 32, 50, 3, 8, 2
BF16, SCALE = 2, 2
FOUR_BITS = Quantization(bits=4, group_size=8)


def read_by_products(ffn, quantization, phase="decode", use=NO_CHANGE, **changes):
    """Bytes that a matrix product reads, by its row."""
    group = Group(n_layers=LAYERS, layer=layer(ffn=ffn))
    model = decoder(group, d_model=D, quantization=quantization, **changes)
    settings, plan = MemorySettings(phase, B, 8), Plan()
    kernels = rank_kernels(planned_pass(model, settings, plan), settings, plan, use).kernels
    return {one.path: one.kernel.read for one in kernels if one.op_class == OpClass.CONTRACTION}


def test_a_product_reads_values_and_scales():
    """F rows of D numbers: half a byte each, and 2 bytes of scale for 8."""
    read = read_by_products(GLU(d_ff=F), FOUR_BITS)["layers.0.ffn.up_proj"]
    assert read == B * D * BF16 + F * (D // 2 + D // 8 * SCALE)
    plain = read_by_products(GLU(d_ff=F), None)["layers.0.ffn.up_proj"]
    assert plain == B * D * BF16 + F * D * BF16


def test_a_tied_head_reads_the_table_as_it_is_stored():
    read = read_by_products(GLU(d_ff=F), FOUR_BITS, tied=True)["lm_head"]
    assert read == B * D * BF16 + V * (D // 2 + D // 8 * SCALE)


def test_of_experts_those_are_read_that_a_token_goes_to():
    experts = MixtureOfExperts(n_experts=EXPERTS, top_k=PER_TOKEN, expert=GLU(d_ff=F))
    plain, stored = (read_by_products(experts, bits) for bits in (None, FOUR_BITS))
    path = "layers.0.ffn.experts.up_proj"
    reached = reached_by_power(EXPERTS, PER_TOKEN, B)
    assert plain[path] - stored[path] == pytest.approx(
        reached * F * (D * BF16 - D // 2 - D // 8 * SCALE), abs=1
    )


def test_a_rank_reads_experts_for_the_tokens_that_it_has_received():
    """tp 2 and ep 2: each rank has half of the experts and computes half of the pairs."""
    experts = MixtureOfExperts(n_experts=EXPERTS, top_k=PER_TOKEN, expert=GLU(d_ff=F))
    model = decoder(Group(n_layers=LAYERS, layer=layer(ffn=experts)), d_model=D)
    settings, plan = MemorySettings("decode", B, 8), Plan(tp=2, ep=2)
    kernels = rank_kernels(planned_pass(model, settings, plan), settings, plan).kernels
    [up] = [one.kernel for one in kernels if one.path == "layers.0.ffn.experts.up_proj"]
    assert up.flops == B * PER_TOKEN // 2 * 2 * D * F
    held = EXPERTS // 2
    # half of the experts that the B tokens of both ranks reach
    reached = reached_by_power(EXPERTS, PER_TOKEN, B) / 2
    rows = B * PER_TOKEN // 2
    assert up.read == pytest.approx(reached * F * D * BF16 + rows * D * BF16 + held * 4, abs=2)


def test_a_layer_by_layer_mixture_reads_the_mean():
    """Of three layers two keep bf16: their kernel is one of three times."""
    mixed = Quantization(bits="dtype", rules=(Rule(match="layers.0", bits=4, group_size=8),))
    read = read_by_products(GLU(d_ff=F), mixed)["layers.0.ffn.up_proj"]
    matrices = 2 * F * D * BF16 + F * (D // 2 + D // 8 * SCALE)
    assert read == round(B * D * BF16 + matrices / LAYERS)


def test_training_multiplies_by_unpacked_matrices():
    whole, stored = (read_by_products(GLU(d_ff=F), bits, "train") for bits in (None, FOUR_BITS))
    assert whole == stored


def test_decoding_of_fewer_bits_is_faster():
    asked = {"device": "h100-sxm", "engine": "vllm"}
    plain = archcli.predict("llama-3.1-8b", **asked).totals
    model = archcli.load("llama-3.1-8b")
    stored = archcli.predict(model.replace(quantization=Quantization(bits=4)), **asked).totals
    for name in ("floor", "expected"):
        assert stored["time_s"][name] < plain["time_s"][name]
        batch = {
            one: totals["break_even"]["batch_size"][name] for one, totals in (("p", plain), ("s", stored))
        }
        assert batch["s"] / batch["p"] == pytest.approx(4 / 16, rel=0.01)  # but for a scale of each row


def test_packed_matrices_are_multiplied_as_they_are_where_a_device_can():
    """In fp8 inputs take a byte, matrices a byte a weight and 4 a row; the head stays in bf16."""
    in_fp8 = Quantization(format="fp8")
    read = read_by_products(GLU(d_ff=F), in_fp8, use=CacheUse(native="fp8"))
    assert read["layers.0.ffn.up_proj"] == B * D + F * D + F * 4
    assert read["lm_head"] == B * D * BF16 + V * D * BF16
    unpacked = read_by_products(GLU(d_ff=F), in_fp8)
    assert unpacked["layers.0.ffn.up_proj"] == B * D * BF16 + F * D + F * 4


# format, device: the dtype of products, by the peaks that the device's file states
PRODUCTS = {
    ("fp8", "h100-sxm"): "fp8",
    ("fp8", "rtx-3090"): "",
    ("fp8-block", "h100-sxm"): "fp8",
    ("fp8-block", "a100-sxm-80gb"): "",
    ("int8", "a100-sxm-80gb"): "int8",
    ("nvfp4", "b200-sxm"): "fp4",
    ("nvfp4", "h100-sxm"): "",
    ("mxfp4", "b200-sxm"): "fp8",
    ("mxfp4", "h100-sxm"): "",
    ("q4_k_m", "b200-sxm"): "",
    ("nf4", "b200-sxm"): "",
    ("awq-int4", "h100-sxm"): "",
}


@sampled_rows(("form", "device"), PRODUCTS, 4)
def test_the_heading_and_a_note_say_how_weights_are_multiplied(form, device):
    expected = PRODUCTS[form, device]
    report = archcli.predict("llama-3.1-8b", device, "prefill", seq_len=2048, dtype=form)
    words = f"computed in {expected} and bf16" if expected else "computed in bf16"
    assert f"{form}, {words}" in report.title
    note = next(note for note in report.notes if note.startswith("Packed matrices"))
    if expected:
        assert note == f"Packed matrices are multiplied in {expected}, as {device} can; all else is in bf16."
    else:
        assert "unpacked to bf16" in note
        lacking = {"nvfp4": "fp4", "mxfp4": "fp4", "fp8-block": "fp8", "fp8": "fp8"}.get(form)
        assert (f"{device} states no peak of {lacking}" in note) == (lacking is not None)
    limits = report.totals["time_s"]
    plain = archcli.predict("llama-3.1-8b", device, "prefill", seq_len=2048, dtype="bf16").totals["time_s"]
    assert (limits["floor"] < 0.8 * plain["floor"]) == bool(expected)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("device", "computed"), [("rtx-3090", "bf16"), ("t4", "fp16"), ("mi210", "bf16")])
def test_fp8_without_its_peak_is_read_as_stored_and_multiplied_in_16_bits(device, computed):
    """A byte a number of weights is read, two of the cache; a prompt takes as long as in 16 bits."""
    asked = {"phase": "decode", "seq_len": 2048, "batch_size": 4}
    found = archcli.predict("llama-3.1-8b", device, dtype="fp8", **asked)
    assert f"fp8, computed in {computed}, vllm of 0.11 to 0.24, on {device}" in found.title
    memory = archcli.count_memory("llama-3.1-8b", device=device, dtype="fp8", **asked)
    assert found.totals["needed_bytes"] == memory.totals["peak_bytes"] + memory.totals["beyond_bytes"]
    # of a token's step all is read but the table of tokens
    parts, table = memory.totals["parts"], 128_256 * 4096 * BF16
    bandwidth = 1e9 * load_datasheet(device).figures["bandwidth_gb_s"].value
    read_s = (parts["weights"] - table + parts["cache"]) / bandwidth
    assert found.totals["time_s"]["floor"] == pytest.approx(read_s, rel=0.02)
    prefill = {
        dtype: archcli.predict("llama-3.1-8b", device, "prefill", seq_len=2048, dtype=dtype).totals["time_s"]
        for dtype in ("fp8", computed)
    }
    assert prefill["fp8"]["floor"] == pytest.approx(prefill[computed]["floor"], rel=0.02)


def test_what_a_config_says_of_its_products_is_read():
    asked = {"phase": "prefill", "seq_len": 2048}
    block = archcli.load("deepseek-v3")
    assert block.published_in.product.runs_in == "fp8"
    read = archcli.load(str(REAL / "qwen3-8b-fp8.json"))
    assert (read.quantization.native, read.quantization.product.runs_in) == ("fp8", "fp8")
    form = "as published (FP8 in blocks of 128 x 128 with a scale of fp32)"
    assert f"{form}, computed in fp8 and bf16" in archcli.predict(read, "h100-sxm", **asked).title
    assert f"{form}, computed in bf16" in archcli.predict(read, "a100-sxm-80gb", **asked).title
