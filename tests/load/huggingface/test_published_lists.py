"""Published checkpoints of ModelOpt with the lists of modules that they leave out: bytes of their files.

Shapes and lists are those of the repositories' config.json and hf_quant_config.json; totals are those of the
language model's tensors in their files, and are worked out here.
"""

import json
import time

import pytest

from archcli.load.source import load, load_text
from archcli.measure.params import count_params
from stored_layouts import nvfp4, plain
from table import every_row

QWEN = {
    "model_type": "qwen3_5_moe",
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "hidden_size": 4096,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "moe_intermediate_size": 1024,
        "shared_expert_intermediate_size": 1024,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "mtp_num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "vocab_size": 248320,
    },
}
QWEN_PARAMS = 396_346_350_336
"""Qwen/Qwen3.5-397B-A17B beside its tower and prediction."""
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_nextn_predict_layers": 1,
}
DEEPSEEK_PARAMS = 671_026_404_352


def qwen_left_out():
    """The list of nvidia/Qwen3.5-397B-A17B-NVFP4."""
    names = ["lm_head", "*.mlp.shared_expert.*", "model.visual*", "mtp.layers.0*"]
    for i in range(60):
        place = f"model.language_model.layers.{i}"
        mixer = "self_attn" if i % 4 == 3 else "linear_attn"
        names += [f"{place}.{mixer}*", f"{place}.mlp.shared_expert*", f"{place}.mlp.shared_expert_gate"]
    return names


def deepseek_left_out():
    """The list of nvidia/DeepSeek-V3.1-NVFP4."""
    parts = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
    names = [f"model.layers.{i}.self_attn.{part}" for i in range(61) for part in parts]
    return ["lm_head", "model.layers.61*", *names]


def packed(*matrices):
    """What NVFP4 adds to the bytes of these matrices in bf16, of each so many: a number below 0."""
    return sum(times * (nvfp4(*shape) - plain(*shape)) for times, shape in matrices)


QWEN_PACKED = packed((60 * 512 * 2, (1024, 4096)), (60 * 512, (4096, 1024)))
# three dense layers, 58 of 256 experts and one shared, and o_proj of 128 heads of 128
NETWORKS = 58 * (256 + 1)
DEEPSEEK_PACKED = packed(
    (61, (7168, 128 * 128)),
    (3 * 2, (18432, 7168)),
    (3, (7168, 18432)),
    (NETWORKS * 2, (2048, 7168)),
    (NETWORKS, (7168, 2048)),
)


@pytest.mark.long
@every_row(
    ("config", "left_out", "params", "saved", "size"),
    [
        (QWEN, qwen_left_out(), QWEN_PARAMS, QWEN_PACKED, 237_032_044_032),
        (DEEPSEEK, deepseek_left_out(), DEEPSEEK_PARAMS, DEEPSEEK_PACKED, 386_380_083_104),
    ],
    ids=["Qwen3.5-397B-A17B-NVFP4", "DeepSeek-V3.1-NVFP4"],
)
def test_bytes_of_published_nvfp4(tmp_path, config, left_out, params, saved, size):
    stated = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": left_out}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(stated))
    loaded = load(str(tmp_path))
    totals = count_params(loaded.model).totals
    assert (totals["params"], totals["bytes"]) == (params, size)
    assert 2 * params + saved == size
    assert not [note for note in loaded.notes if "no module of the model" in note]


def mixture(layers, experts):
    """A mixture whose every expert is named by itself, as nvidia/MiniMax-M3-NVFP4 does with 22,422 names."""
    names = [
        f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj"
        for layer in range(layers)
        for expert in range(experts)
        for name in ("gate", "up", "down")
    ]
    return {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 64,
        "moe_intermediate_size": 32,
        "num_experts": experts,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 128,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {name: {"quant_algo": "NVFP4", "group_size": 16} for name in names},
        },
    }


@pytest.mark.long
def test_a_list_of_all_experts_is_read_in_time_and_names_no_single_ones():
    config = mixture(layers=30, experts=128)
    start = time.process_time()
    loaded = load_text(json.dumps(config, indent=1), "f")
    assert time.process_time() - start < 3  # it was 22 s, of lines counted from the file's start each time
    assert count_params(loaded.model).totals["params_by_width"]["4"] == 30 * 128 * 3 * 64 * 32
    assert not any("experts count alike" in note for note in loaded.notes)


@every_row("left_out", [0, 5])
def test_a_list_without_some_experts_is_said_not_to_be_told_apart(left_out):
    config = mixture(layers=2, experts=8)
    named = config["quantization_config"]["quantized_layers"]
    alone = {name: value for name, value in named.items() if f".experts.{left_out}." in name}
    config["quantization_config"]["quantized_layers"] = alone
    assert any("experts count alike" in note for note in load_text(json.dumps(config), "f").notes)


@pytest.mark.long
@every_row(
    "entry",
    ["model.layers.61*", "e_score_correction_bias", "model.layers.4.mlp.gate.e_score_correction_bias"],
)
def test_prediction_and_buffers_are_names_of_the_file(entry):
    stated = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": [entry, "abc"],
    }
    [note] = [
        it
        for it in load_text(json.dumps({**DEEPSEEK, "quantization_config": stated}), "f").notes
        if "called" in it
    ]
    assert note == "quantization_config: no module of the model is called 'abc'"
