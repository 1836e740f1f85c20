"""Names in a quantization_config are those of the file's own modules: fused, in hybrids, and of experts."""

import json
from math import ceil

import pytest

from archcli.load.source import load_text
from archcli.measure.params import count_params
from table import every_row

# Qwen3.5-27B: 64 layers 5120 wide with a network of 17408; every fourth has attention of 24 and 4 heads of
# 256 whose q_proj holds a gate too, the others a delta net of 16 and 48 heads of 128
D, F, V, DELTA, FULL = 5120, 17408, 248320, 48, 16
QWEN = {
    "model_type": "qwen3_5_text",
    "architectures": ["Qwen3_5ForCausalLM"],
    "hidden_size": D,
    "intermediate_size": F,
    "vocab_size": V,
    "num_hidden_layers": DELTA + FULL,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "tie_word_embeddings": False,
}
ATTENTION = {"q_proj": (2 * 6144, D), "k_proj": (1024, D), "v_proj": (1024, D), "o_proj": (D, 6144)}
NET = {
    "in_proj_qkv": (2 * 2048 + 6144, D),
    "in_proj_z": (6144, D),
    "in_proj_b": (48, D),
    "in_proj_a": (48, D),
    "out_proj": (D, 6144),
}
MLP = {"gate_proj": (F, D), "up_proj": (F, D), "down_proj": (D, F)}
LAYERS = {"self_attn": (FULL, ATTENTION), "linear_attn": (DELTA, NET), "mlp": (DELTA + FULL, MLP)}
WHOLE = 26_895_998_464
TENSORS = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor"},
        }
    },
    "ignore": ["lm_head"],
}
"""FP8 with a scale a matrix."""
"""Parameters, as the index of Qwen/Qwen3.5-27B adds up to beside its tower and prediction."""


def count(chosen):
    """The numbers of the matrices of a layer's part and name that are chosen."""
    return sum(
        times * out * inputs
        for part, (times, held) in LAYERS.items()
        for name, (out, inputs) in held.items()
        if chosen(part, name)
    )


def four_bits(chosen):
    """Bytes with 4 bits a number, a scale of 16 for 128, and two integers of 64 bits for a matrix's shape."""
    matrices = sum(times * sum(chosen(part, name) for name in held) for part, (times, held) in LAYERS.items())
    packed = count(chosen)
    return 2 * (WHOLE - packed) + packed // 2 + 2 * packed // 128 + 16 * matrices


def compressed(*ignore, targets=("Linear",)):
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "group_size": 128, "strategy": "group"}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": [*targets], "weights": weights}},
        "ignore": ["lm_head", *ignore],
    }


def totals(quantization, config=QWEN):
    return count_params(
        load_text(json.dumps({**config, "quantization_config": quantization}), "f").model
    ).totals


BY_NAME = {
    "linear_attn": (compressed("re:.*linear_attn.*"), lambda part, _: part != "linear_attn"),
    "self_attn": (compressed("re:.*self_attn.*"), lambda part, _: part != "self_attn"),
    "fused": (compressed("re:.*in_proj_qkv$"), lambda _, name: name != "in_proj_qkv"),
    "gate of the net": (compressed("re:.*in_proj_z$"), lambda _, name: name != "in_proj_z"),
    "q of attention alone": (compressed("re:.*q_proj$"), lambda _, name: name != "q_proj"),
    "one target": (compressed(targets=["re:.*out_proj$"]), lambda _, name: name == "out_proj"),
    "all": (compressed(), lambda *_: True),
}


@pytest.mark.long
@every_row(("stated", "chosen"), BY_NAME.values(), ids=BY_NAME)
def test_a_pattern_of_a_hybrid_is_of_its_own_modules(stated, chosen):
    assert totals(stated)["bytes"] == four_bits(chosen)


def test_the_usual_recipe_of_a_hybrid():
    """Published recipes leave delta nets out: 25.9 GB, not 17.6."""
    recipe = compressed("re:.*visual.*", "re:.*linear_attn.*", "re:.*mtp.*")
    assert totals(recipe)["bytes"] == 25_899_879_424


WIDTHS = {
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["self_attn"]},
        {"bf16": 4_223_163_904},
    ),
    "gptq": (
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "dynamic": {"+:.*down_proj": {"bits": 8, "group_size": 64}, "-:.*self_attn.*": {}},
        },
        {"bf16": 4_223_163_904, "4": 16_968_581_120, "8": (DELTA + FULL) * D * F},
    ),
}


@every_row(("stated", "widths"), WIDTHS.values(), ids=WIDTHS)
def test_numbers_by_their_width(stated, widths):
    found = totals(stated)["params_by_width"]
    assert {width: found[width] for width in widths} == widths


def notes(quantization, **changes):
    config = {**QWEN, **changes, "quantization_config": quantization}
    return [note for note in load_text(json.dumps(config), "f").notes if "no module" in note]


@pytest.mark.long
def test_a_pattern_that_means_nothing_is_noted_once():
    unknown = ["re:.*mixer.*", "block_sparse_moe.gate", "model.layers.64.mlp", "fc1"]
    (note,) = notes(compressed("model.layers.0.linear_attn.conv1d", "model.norm", *unknown))
    assert note == (
        "quantization_config: no module of the model is called 'block_sparse_moe.gate', "
        "'model.layers.64.mlp', 'fc1' and 1 more"
    )


@pytest.mark.long
def test_a_pattern_of_what_is_not_counted_is_not_noted():
    """The head, prediction layers that every file of this family has, and the tower of a wrapper."""
    assert notes(compressed("re:.*mtp.*", "mtp.fc")) == []
    assert notes(compressed("re:.*visual.*")) != []
    text = {key: value for key, value in QWEN.items() if key != "architectures"}
    quantization = compressed("re:.*visual.*", "model.visual.merger", "re:.*mtp.*")
    whole = {"model_type": "qwen3_5", "text_config": text, "quantization_config": quantization}
    assert not any("no module" in note for note in load_text(json.dumps(whole), "f").notes)


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("depth", [8, 200])
def test_layers_are_told_apart_by_their_own_names(depth):
    """Every layer's own entry, as files that list all modules have them."""
    quarter = [i for i in range(depth) if i % 4 == 3]
    config = {**QWEN, "num_hidden_layers": depth}
    by_number = compressed(
        *(f"model.language_model.layers.{i}.self_attn.{name}" for i in quarter for name in ATTENTION)
    )
    assert totals(by_number, config)["bytes"] == totals(compressed("re:.*self_attn.*"), config)["bytes"]


def test_a_class_that_fuses_has_a_scale_a_matrix():
    """A scale for in_proj_qkv, not three of them."""
    matrices = FULL * len(ATTENTION) + DELTA * len(NET) + (DELTA + FULL) * len(MLP)
    packed = count(lambda *_: True)
    assert totals(TENSORS)["bytes"] == 2 * (WHOLE - packed) + packed + 2 * matrices


def test_blocks_go_on_from_one_matrix_of_a_tensor_to_the_next():
    """Phi-3's qkv_proj of 40 x 20 values is 13 blocks of 64; of q, k and v by themselves there were 15."""
    width, entries = 20, 60
    config = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "hidden_size": width,
        "intermediate_size": 10,
        "vocab_size": entries,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
    }
    stated = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    matrices = {"qkv": (40, width), "o_proj": (width, width), "gate_up": (20, width), "down": (width, 10)}
    values = [out * inputs for out, inputs in matrices.values()]
    # tables of tokens and the head, three norms; 4 bits, a scale of fp32 a block, a table of 16 of fp32
    as_it_is = 2 * (2 * entries * width + 3 * width)
    packed = sum(n // 2 + 4 * ceil(n / 64) + 4 * 16 for n in values)
    assert totals(stated, config)["bytes"] == as_it_is + packed


def test_experts_for_images_are_packed_as_those_for_text():
    """ERNIE 4.5 VL: 4 experts of 20 for text and 4 of 12 for images in each of 2 of its 3 layers."""
    width, text, images = 32, 20, 12
    config = {
        "model_type": "ernie4_5_vl_moe_text",
        "hidden_size": width,
        "intermediate_size": 40,
        "vocab_size": 53,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_num_shared_experts": 1,
        "moe_intermediate_size": [text, images],
    }
    attention = 2 * width * width + 2 * width * 16
    experts = 4 * 3 * width * text + 4 * 3 * width * images + 3 * width * text
    packed = 3 * attention + 3 * width * 40 + 2 * experts
    matrices = 3 * 4 + 3 + 2 * (4 * 3 + 4 * 3 + 3)
    plain = count_params(load_text(json.dumps(config), "f").model).totals["bytes"]
    # a byte for two, and a scale of 16 bits a matrix
    assert plain - totals(TENSORS, config)["bytes"] == packed - 2 * matrices


@pytest.mark.parametrize(
    ("pattern", "is_noted"),
    [(r"re:.*experts\.(0|1)\..*", True), ("experts.3.down_proj", True), ("experts", False)],
)
def test_a_pattern_of_single_experts_is_said_not_to_be_told_apart(pattern, is_noted):
    routed = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 2}
    config = {**QWEN, **routed, "quantization_config": compressed(pattern)}
    found = load_text(json.dumps(config), "f").notes
    assert any("experts count alike" in note for note in found) == is_noted


def test_a_single_expert_of_a_number_above_0_is_a_module():
    """Switch's expert_3, of 4 in each other layer."""
    stated = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["expert_3"]}
    config = {
        "model_type": "switch_transformers",
        "architectures": ["SwitchTransformersForConditionalGeneration"],
        "num_layers": 4,
        "num_experts": 4,
        "quantization_config": stated,
    }
    found = [note for note in load_text(json.dumps(config), "f").notes if "expert_3" in note]
    assert found == ["quantization_config: experts count alike, and 'expert_3' names some alone"]


def test_a_listed_parent_means_no_module_inside_of_it():
    """fantasylord/Qwen36: its list has linear_attn, and its index a weight_shape of in_proj_qkv."""
    listed = [
        f"model.language_model.layers.{layer}.linear_attn{inside}"
        for layer in range(DELTA + FULL)
        if layer % 4 != 3
        for inside in ("", ".norm", ".in_proj_b", ".in_proj_a")
    ]
    expected = four_bits(lambda _, name: name not in ("in_proj_a", "in_proj_b"))
    assert totals(compressed(*listed))["bytes"] == expected
