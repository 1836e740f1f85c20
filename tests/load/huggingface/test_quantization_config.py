"""quantization_config: bytes are those of the tensors that each layout stores, added up by hand."""

import json
import time
from pathlib import Path

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.measure.params import count_params
from stored_layouts import (
    BY_GROUP,
    CASES,
    GPTQ,
    HEAD,
    KV,
    LINEARS,
    LLAMA,
    OTHERS,
    D,
    F,
    L,
    awq,
    compressed,
    fp8_block,
    gptq,
    mlx,
    packed,
    plain,
)
from table import every_row


def loaded(config, overrides=()):
    return load_text(json.dumps(config), "f", overrides)


def totals(config, overrides=()):
    return count_params(loaded(config, overrides).model).totals


@pytest.mark.sample(7, whole=True)
@pytest.mark.parametrize("name", CASES)
def test_bytes_are_those_of_the_stored_tensors(name):
    stated, pack, kept, headed = CASES[name]
    whole = OTHERS + (pack(*HEAD) - plain(*HEAD) if headed else 0)
    for i in range(L):
        for module, shape in LINEARS.items():
            is_kept = module in kept or f"model.layers.{i}.{module}" in kept
            whole += (plain if is_kept else pack)(*shape)
    found = totals({**LLAMA, "quantization_config": stated})
    assert found["bytes"] == whole
    assert found["params"] == totals(LLAMA)["params"]


OSS = {
    "model_type": "gpt_oss",
    "architectures": ["GptOssForCausalLM"],
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
        "quant_method": "mxfp4",
    },
}


@pytest.mark.parametrize(
    ("layers", "experts", "size"), [(24, 32, 13_761_264_768), (36, 128, 65_248_815_744)], ids=["20b", "120b"]
)
def test_gpt_oss_is_as_large_as_its_index_says(layers, experts, size):
    """`total_size` of openai/gpt-oss-20b and 120b, model.safetensors.index.json."""
    assert totals({**OSS, "num_hidden_layers": layers, "num_local_experts": experts})["bytes"] == size


def test_deepseek_v3_keeps_tables_router_and_norms():
    """A compressed key of 512 + 64 is five rows of blocks."""
    fp8 = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
    }
    config = {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 7168,
        "num_nextn_predict_layers": 0,
        "quantization_config": fp8,
        "vocab_size": 129280,
    }
    attention = [(1536, 7168), (128 * 192, 1536), (576, 7168), (128 * 256, 512), (7168, 128 * 128)]
    dense = [(18432, 7168), (18432, 7168), (7168, 18432)]
    expert = [(2048, 7168), (2048, 7168), (7168, 2048)]
    packed = 61 * attention + 3 * dense + 58 * 257 * expert
    norms = 61 * (2 * 7168 + 1536 + 512) + 7168
    rest = 2 * 129280 * 7168 + 58 * 256 * 7168 + norms
    assert totals(config)["bytes"] == 2 * rest + sum(fp8_block(*shape) for shape in packed)
    assert fp8_block(576, 7168) == 576 * 7168 + 4 * 5 * 56


def test_matrices_stored_in_one_share_what_is_stored_once():
    """Phi-3 stores queries, keys and values in one matrix, gate and up in another: two g_idx, not five."""
    config = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        **{key: LLAMA[key] for key in LLAMA if key not in ("model_type", "architectures")},
        "pad_token_id": 0,
    }
    fused = [(D + 2 * KV, D), (D, D), (2 * F, D), (D, F)]
    assert totals({**config, "quantization_config": GPTQ})["bytes"] == OTHERS + L * sum(
        gptq(*shape) for shape in fused
    )


def test_experts_are_packed_and_the_router_is_not():
    config = {
        **LLAMA,
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 4,
    }
    attention = [shape for name, shape in LINEARS.items() if name.startswith("self_attn")]
    expert = [shape for name, shape in LINEARS.items() if name.startswith("mlp")]
    layer = sum(gptq(*shape) for shape in attention + 4 * expert) + plain(4, D)
    assert totals({**config, "quantization_config": GPTQ})["bytes"] == OTHERS + L * layer
    awq_config = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["gate"]}
    layer = sum(awq(*shape) for shape in attention + 4 * expert) + plain(4, D)
    assert totals({**config, "quantization_config": awq_config})["bytes"] == OTHERS + L * layer


@every_row(
    "method",
    ["vptq", "spqr", "sinq", "qqq", "ascend", 7, None],
)
def test_a_method_that_is_not_known_is_named_and_parameters_are_counted(method):
    model = loaded({**LLAMA, "quantization_config": {"quant_method": method, "bits": 4}})
    [note] = model.notes
    assert (repr(method) if isinstance(method, str) else "missing") in note
    assert "parameters are counted" in note
    stated = method if isinstance(method, str) else "a quant_method without a name"
    assert model.model.unknown_form == f"{stated}, bits 4"
    plain = model.model.replace(quantization=None, published_in=None)
    assert plain == loaded(LLAMA).model


FORMS = {
    "awq of gemv_fast": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv_fast"},
    "24": compressed("marlin-24", BY_GROUP),
    "sparse": {**compressed("pack-quantized", BY_GROUP), "sparsity_config": {"format": "sparse-24-bitmask"}},
    "no groups": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    "mixed": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
    "neither 4 nor 8": {"quant_method": "bitsandbytes"},
    "bits": {"quant_method": "gptq", "bits": "four"},
    "block": {"quant_method": "fp8", "weight_block_size": [128, "x"]},
    "list": {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
}


@every_row("name", FORMS)
def test_a_form_that_is_not_known_is_noted(name):
    model = loaded({**LLAMA, "quantization_config": FORMS[name]})
    [note] = model.notes
    assert note.startswith("quantization_config: ")
    assert note.endswith("parameters are counted, and bytes are not known: --dtype states a form")
    assert model.model.unknown_form


def test_what_is_no_mapping_is_refused():
    with pytest.raises(ArchError, match="quantization_config must be a mapping"):
        loaded({**LLAMA, "quantization_config": [4]})


def test_the_key_that_is_left_out_on_the_command_line():
    config = {**LLAMA, "quantization_config": GPTQ}
    assert totals(config, ["quantization=null"])["bytes"] == totals(LLAMA)["bytes"]


def test_the_text_part_of_a_wrapper_may_state_it():
    text = {**LLAMA, "quantization_config": compressed("pack-quantized", BY_GROUP, None, ["lm_head"])}
    names = [f"language_model.model.layers.{i}.self_attn.{which}_proj" for i in range(L) for which in "qkvo"]
    for inner in ("language_model.lm_head", *names):
        text["quantization_config"]["ignore"].append(inner)
    whole = totals({"model_type": "llava", "text_config": text, "tie_word_embeddings": False})
    ffn = sum(packed(*shape) for name, shape in LINEARS.items() if name.startswith("mlp"))
    attention = sum(plain(*shape) for name, shape in LINEARS.items() if name.startswith("self"))
    assert whole["bytes"] == OTHERS + L * (ffn + attention)


@pytest.mark.parametrize("mixture", ["mlp", "block_sparse_moe"])
def test_mlx_names_the_experts_of_a_layer_at_once(mixture):
    config = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    config["architectures"] = ["MixtralForCausalLM"]
    usual = {"group_size": 64, "bits": 4}
    own = {f"model.layers.0.{mixture}.switch_mlp.down_proj": {"group_size": 64, "bits": 8}}
    more = totals({**config, "quantization": {**usual, **own}})["bytes"]
    assert more - totals({**config, "quantization": usual})["bytes"] == 4 * (mlx(D, F, 8) - mlx(D, F))


def test_a_wrapper_may_state_it_for_all_its_parts():
    """At the top beside text_config (MLX), and in a flat file, whose towers are named as left out."""
    own = {"group_size": 64, "bits": 4}
    text = {key: value for key, value in LLAMA.items() if key != "architectures"}
    whole = {"model_type": "llava", "tie_word_embeddings": False, "text_config": text, "quantization": own}
    layer = sum(mlx(*shape) for shape in LINEARS.values())
    assert totals(whole)["bytes"] == 2 * mlx(*HEAD) + L * layer + 2 * (2 * L + 1) * D
    left_out = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["visual"]}
    flat = {**LLAMA, "model_type": "qwen2_vl", "vision_config": {}, "quantization_config": left_out}
    for config in (whole, flat):
        assert not any("not understood" in note for note in loaded(config).notes)
    biases = 2 * L * (D + 2 * KV)
    layer = sum(awq(*shape) for shape in LINEARS.values())
    assert totals({**flat, "tie_word_embeddings": False})["bytes"] == OTHERS + L * layer + biases


def test_groups_of_modules_have_formats_of_their_own():
    eight = {"targets": ["re:.*down_proj$"], "weights": {**BY_GROUP, "num_bits": 8}}
    stated = compressed("pack-quantized", BY_GROUP)
    stated["config_groups"]["group_1"] = eight
    layer = sum(packed(*shape, bits=8 if name == "mlp.down_proj" else 4) for name, shape in LINEARS.items())
    assert totals({**LLAMA, "quantization_config": stated})["bytes"] == OTHERS + L * layer


def test_mlx_packs_every_matrix_and_the_table():
    """As MLX states it: twice, without a method, with settings of modules of their own."""
    stated = {"group_size": 64, "bits": 4}
    own = {**stated, "model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 32}, "model.layers.1": False}
    whole = {**LLAMA, "quantization": own, "quantization_config": own}
    layers = 0
    for i in range(L):
        for name, shape in LINEARS.items():
            packed_as = mlx(*shape, 8, 32) if (i, name) == (0, "mlp.down_proj") else mlx(*shape)
            layers += plain(*shape) if i == 1 else packed_as
    assert totals(whole)["bytes"] == 2 * mlx(*HEAD) + layers + 2 * (2 * L + 1) * D
    tied = {**LLAMA, "tie_word_embeddings": True, "quantization": {**stated, "mode": "affine"}}
    layer = sum(mlx(*shape) for shape in LINEARS.values())
    assert totals(tied)["bytes"] == mlx(*HEAD) + L * layer + 2 * (2 * L + 1) * D


@pytest.mark.long
def test_a_setting_for_each_module_is_read_at_once():
    """As mixed quantizations of MLX state it: 100 layers of which every other has 6 bits."""
    names = [f"model.layers.{i}.{name}" for i in range(100) for name in LINEARS]
    own = {name: {"group_size": 64, "bits": 4 + 2 * (i // len(LINEARS) % 2)} for i, name in enumerate(names)}
    config = {**LLAMA, "num_hidden_layers": 100, "quantization": {"group_size": 64, "bits": 4, **own}}
    start = time.process_time()
    found = totals(config)["bytes"]
    assert time.process_time() - start < 3
    layers = [sum(mlx(*shape, bits) for shape in LINEARS.values()) for bits in (4, 6)]
    assert found == 2 * mlx(*HEAD) + 50 * sum(layers) + 2 * (2 * 100 + 1) * D


def test_a_format_asks_for_another_form_of_a_quantized_config():
    config = json.loads((Path(__file__).parent / "real_files" / "gpt-oss-20b.json").read_text())
    published, other = (archcli.count_params(config, dtype=dtype).totals for dtype in ("bf16", "q4_k_m"))
    assert published["bytes"] == published["published_bytes"] == other["published_bytes"]
    assert other["bytes"] == archcli.count_params("gpt-oss-20b", dtype="q4_k_m").totals["bytes"]
