"""Several LoRA adapters served at once: bytes in the slots of engines, and what a step reads of them.

Witnesses: the parameters that peft trains, and shapes of the buffers that vLLM and SGLang allocate.
"""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import archcli
from adapted_modules import ALL, trained
from archcli.errors import ArchError
from archcli.modules.adapters.lora import LoRA
from archcli.wings.serving.memory.traced import PARTS
from archcli.wings.serving.pictures.memory import COLOURS
from table import every_row

LAYERS, D, KV, FF, R = 32, 4096, 1024, 14336, 16
"""Llama 3.1 8B, adapters of rank 16."""
WIDTHS = [(D, D), (D, KV), (D, KV), (D, D), (D, FF), (D, FF), (FF, D)]
"""q, k, v, o, gate, up, down: inputs and outputs."""
PARAMS = LAYERS * sum(R * (read + written) for read, written in WIDTHS)
BYTES = 2 * PARAMS


def parts(model="llama-3.1-8b", phase="serve", **options):
    return archcli.count_memory(model, phase, **options).totals["parts"]


def with_lora(**fields):
    return archcli.load("llama-3.1-8b").replace(lora=LoRA(**fields))


def test_an_adapter_of_all_projections():
    assert (PARAMS, BYTES) == (41_943_040, 83_886_080)
    without, found = parts(), parts(adapters=8)
    # vLLM's kernels add to what a projection writes: nothing else is held
    assert found == without | {"adapters": 8 * BYTES}


@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
def test_peft_trains_as_many():
    sizes = {"hidden_size": D, "num_hidden_layers": LAYERS, "intermediate_size": FF, "vocab_size": 128256}
    config = LlamaConfig(**sizes, num_attention_heads=32, num_key_value_heads=8)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    # peft 0.21.2 itself says 41,943,040 of this class
    assert parts(adapters=3)["adapters"] == 3 * 2 * trained(model, ALL, R)


def elements(shapes):
    return sum(rows * columns for rows, columns in shapes)


def test_a_rank_of_two_has_vllms_buffers():
    # lora_a_stacked [max_loras, 1, rank, in], lora_b_stacked [max_loras, 1, out, rank]: q, k, v, gate and up
    # are cut by outputs, A whole; o and down by inputs, B whole
    qkv = [(R, D)] * 3 + [(D // 2, R), (KV // 2, R), (KV // 2, R)]
    o = [(R, D // 2), (D, R)]
    gate_up = [(R, D)] * 2 + [(FF // 2, R)] * 2
    down = [(R, FF // 2), (D, R)]
    expected = 8 * LAYERS * 2 * elements(qkv + o + gate_up + down)
    assert parts(adapters=8, engine="vllm", tp=2)["adapters"] == expected


def test_the_stages_of_a_pipeline_have_those_of_their_layers():
    report = archcli.count_memory("llama-3.1-8b", "serve", adapters=4, pp=2)
    assert [rank["parts"]["adapters"] for rank in report.totals["ranks"]] == [4 * BYTES // 2] * 2


@every_row(
    ("engine", "rank", "widths"),
    [
        # slots of every projection, and of the next rank that MaxLoRARanks has
        ("vllm", 16, WIDTHS),
        # q_proj and v_proj are a part of qkv_proj, and so is k_proj
        ("sglang", 12, WIDTHS[:3]),
        ("llamacpp", 12, [WIDTHS[0], WIDTHS[2]]),
    ],
)
def test_a_slot_is_as_large_as_the_engine_makes_it(engine, rank, widths):
    model = with_lora(rank=12, targets=("q", "v"))
    expected = 2 * LAYERS * sum(rank * (read + written) for read, written in widths)
    assert parts(model, engine=engine, adapters=2)["adapters"] == 2 * expected


def test_every_expert_has_its_own():
    # Mixtral 8x7B: 8 experts of w1, w2, w3 (w13_lora_a_stacked [max_loras, experts, rank, in], …)
    experts = 8 * 3 * R * (D + FF)
    attention = sum(R * (read + written) for read, written in WIDTHS[:4])
    assert parts("mixtral-8x7b", adapters=2)["adapters"] == 2 * 2 * LAYERS * (attention + experts)


def test_weights_in_four_bits_have_adapters_in_the_models_type():
    assert parts(dtype="awq-int4", adapters=8)["adapters"] == 8 * BYTES


def test_a_context_is_shorter_by_what_adapters_take():
    def fits(**options):
        return archcli.fit("llama-3.1-8b", "rtx-4090", dtype="bf16", engine="vllm", **options).totals[
            "context"
        ]

    of_token = 2 * LAYERS * KV * 2
    assert fits() - fits(adapters=16) == 16 * BYTES // of_token


def kernels(batch_size, adapters, **options):
    report = archcli.predict("llama-3.1-8b", "h100-sxm", batch_size=batch_size, adapters=adapters, **options)
    return report, [row for row in report.rows if row["kernel"] == "adapters"]


def moved(*question, **options):
    return sum(row["bytes"] for row in kernels(*question, **options)[1])


def test_a_step_reads_the_adapters_of_its_sequences():
    assert moved(8, 8) - moved(8, 1) == 7 * BYTES
    assert moved(8, 32) == moved(8, 8)
    # a prompt of 2,048 tokens has one
    assert moved(1, 8, phase="prefill") == moved(1, 1, phase="prefill")


def test_a_token_passes_through_one_adapter():
    _, rows = kernels(8, 8)
    assert sum(row["flops"] for row in rows) == 8 * 2 * PARAMS
    # one shrinks and one expands: for q, k, v; o; gate, up; down
    assert sum(row["times"] for row in rows) == LAYERS * 4 * 2


def test_a_token_passes_through_the_adapters_of_its_experts():
    rows = archcli.predict("mixtral-8x7b", "h200-sxm", batch_size=8, adapters=4).rows
    attention = sum(R * (read + written) for read, written in WIDTHS[:4])
    # two of eight experts
    flops = sum(row["flops"] for row in rows if row["kernel"] == "adapters")
    assert flops == 8 * 2 * LAYERS * (attention + 2 * 3 * R * (D + FF))
    assert not any("lora" in row["path"] for row in rows if row["kernel"] != "adapters")


def test_an_output_is_read_and_written():
    # beside matrices, for each token: A reads an input and writes a rank, B reads that and adds to an output
    inputs = D + D + D + FF
    narrow = len(WIDTHS) * R
    outputs = sum(written for _, written in WIDTHS)
    # a rank that several products read counts once of each group
    shared = 3 * R
    assert moved(1, 1) - BYTES == 2 * LAYERS * (inputs + 2 * narrow - shared + 2 * outputs)


def test_no_range_where_they_take_more_than_a_tenth():
    report, _ = kernels(64, 64, seq_len=512)
    assert report.totals["time_s"]["expected"] is None
    assert report.inputs["adapters"] == 64


@every_row(
    ("options", "why"),
    [
        ({"phase": "train"}, "serves several at once"),
        ({"phase": "forward"}, "serves several at once"),
        ({"phase": "serve", "adapters": 0}, "above 0"),
        ({"phase": "serve", "device": "rtx-4090", "offload": "auto"}, "in RAM of --adapters is unknown"),
    ],
)
def test_others_are_refused(options, why):
    with pytest.raises(ArchError, match=why):
        archcli.count_memory("llama-3.1-8b", **{"adapters": 4, **options})


@every_row(
    ("fields", "why"),
    [
        ({"rank": 600}, "no slots for adapters of rank 600"),
        ({"rank": 8, "saved": ("lm_head",)}, "copies of whole weights"),
    ],
)
def test_what_no_slot_holds_is_refused(fields, why):
    with pytest.raises(ArchError, match=why):
        parts(with_lora(**fields), adapters=2)


def test_torch_alone_is_not_timed():
    with pytest.raises(ArchError, match="several adapters at once is not known"):
        archcli.predict("llama-3.1-8b", "h100-sxm", engine="none", adapters=2)


@pytest.mark.long
def test_the_largest_rank_is_one_of_a_slot():
    fitting = {"device": "rtx-4090", "adapters": 4, "fit": "rank"}
    fitted = {
        engine: archcli.count_memory("llama-3.1-8b", "serve", engine=engine, **fitting).totals["fit"]["rank"]
        for engine in ("vllm", "sglang")
    }
    # MaxLoRARanks of vLLM has 256 and 320; SGLang takes any
    assert fitted["vllm"] == 256
    assert fitted["sglang"] not in {128, 256}


def test_every_part_has_a_colour():
    assert {*COLOURS} == {*PARTS}
