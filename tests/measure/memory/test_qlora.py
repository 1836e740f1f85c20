"""Adapters over a base in 4 bits: QLoRA, arXiv:2305.14314, and bitsandbytes' packing."""

import pytest

from archcli import count_memory, load, predict
from archcli.modules.stored.formats import FORMATS
from archcli.wings.serving.devices.budget import read_budget
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings

ADAPTED = ["lora.rank=64", "lora.targets=[all_linear]"]
GIB = 2**30


def peak(*overrides, dtype="nf4-double", **settings):
    model = load("llama-1-65b", overrides=[*ADAPTED, *overrides])
    return count_memory(model, seq_len=512, recompute="layer", dtype=dtype, **settings).totals


def test_65b_trains_on_one_gpu_of_48_gb_in_4_bits_alone():
    """The paper's title claim; with all weights in 16 bits it takes more than 780 GB (section 1)."""
    card = read_budget("rtx-a6000").memory_bytes
    quantized = peak()
    assert 0.85 * card < quantized["peak_bytes"] + quantized["beyond_bytes"] < card
    assert peak(dtype="bf16")["peak_bytes"] > 2 * card
    whole = count_memory("llama-1-65b", seq_len=512, recompute="layer").totals["peak_bytes"]
    assert whole > 780e9


def test_the_parts_of_the_base():
    """4 bits and 0.127 of scales of a weight; table and head in bf16; optimizer of adapters alone."""
    d, layers, vocab, ff, rank = 4096, 32, 32000, 11008, 64
    matrices = layers * (4 * d * d + 3 * d * ff)
    adapters = layers * rank * (4 * 2 * d + 3 * (d + ff))
    norms = (2 * layers + 1) * d
    scales = matrices // 64 + 4 * matrices // (64 * 256)
    model = load("llama-1-7b", overrides=ADAPTED)
    parts = count_memory(model, seq_len=512, dtype="nf4-double").totals["parts"]
    assert parts["weights"] == matrices // 2 + scales + 2 * (2 * vocab * d + norms + adapters)
    assert parts["optimizer"] == 12 * adapters + 4 * 2 * 7 * layers


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("plan", [Plan(dp=2), Plan(dp=2, zero=3), Plan(tp=2), Plan(pp=2, micro_batches=2)])
def test_on_several_devices_the_base_is_stored_in_4_bits_too(plan):
    model = load("llama-1-7b", overrides=[*ADAPTED, "quantization=nf4-double"])
    settings = MemorySettings("train", 1, 64)
    alone = MemoryQuestion(model, settings).answer().largest.peak.weights
    each = MemoryQuestion(model, settings, plan).answer().largest.peak.weights
    shared = plan.tp * plan.pp * (plan.dp if plan.zero else 1)
    # adapters are split on one side alone, stages differ by their ends
    assert each == pytest.approx(alone / shared, rel=0.03)


def test_a_copy_of_the_matrix_is_alive_while_its_product_runs():
    """The widest: d_ff x d_model in bf16, at the peak of a layer that is recomputed."""
    moments = {}
    for dtype in ("bf16", "nf4-double"):
        asked = {"seq_len": 16, "recompute": "layer", "loss": "fused", "dtype": dtype}
        [moments[dtype]] = [
            moment
            for moment in count_memory(load("llama-1-7b", overrides=ADAPTED), **asked).totals["moments"]
            if moment["moment"] == "backward"
        ]
    more = moments["nf4-double"]["parts"]["temporaries"] - moments["bf16"]["parts"]["temporaries"]
    assert more == pytest.approx(2 * 4096 * 11008, rel=0.05)


@pytest.mark.long
def test_each_product_unpacks_its_matrix_forward_and_backward():
    model = load("llama-1-7b", overrides=ADAPTED)
    rows = predict(model, "h100-sxm", "train", seq_len=64, dtype="nf4-double").rows
    unpacked = [row for row in rows if row["kernel"] == "dequantize"]
    matrix = 4096 * 11008
    sizes = {round(row["bytes"] / row["times"]) for row in unpacked if row["path"].endswith("ffn.up_proj")}
    assert sizes == {round(matrix * (2 + 4.126953125 / 8))}
    assert {row["stage"] for row in unpacked} == {"forward", "backward"}
    # what the first layer's queries, keys and values are made of needs no gradient
    assert sum(row["times"] for row in unpacked) == 2 * 7 * 32 - 3


def test_blocks_go_on_from_row_to_row():
    """bitsandbytes quantizes the flattened matrix in blocks of 64: 12 x 10 are two of them."""
    assert FORMATS["nf4"].packing.bits_of((12, 10), 16) == (4 * 120, 2 * 32)
    assert FORMATS["nf4-double"].packing.bits_of((12, 10), 16) == (4 * 120, 2 * 8 + 32)
    small = ["d_model=10", "n_heads=2", "d_ff=36"]
    assert count_memory(load("gpt2", overrides=small), dtype="nf4", seq_len=8).totals["peak_bytes"] > 0
