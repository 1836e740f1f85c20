"""Forms of ModelOpt, DeepSeek, AutoRound and other libraries: bytes of the tensors that their code stores."""

import json

import pytest

from archcli.load.source import load, load_text
from archcli.measure.params import count_params
from stored_forms import (
    CASES,
    INT,
    MX,
    PER_TENSOR,
    WEIGHT_ONLY,
    a_row,
    auto_round,
    hqq3,
    in_groups,
    modelopt,
    torchao,
)
from stored_layouts import HEAD, LINEARS, LLAMA, OTHERS, L, nvfp4, plain
from table import every_row, sampled_rows


def totals(config):
    return count_params(load_text(json.dumps(config), "f").model).totals


@sampled_rows("name", CASES, 4)
def test_bytes_are_those_of_the_stored_tensors(name):
    stated, pack = CASES[name]
    whole = OTHERS + L * sum(pack(*shape) for shape in LINEARS.values())
    if name == "hqq-3":  # no module is skipped
        whole += hqq3(*HEAD) - plain(*HEAD)
    assert totals({**LLAMA, "quantization_config": stated})["bytes"] == -(-whole // 1)


@every_row(
    ("mode", "bits", "group", "scale", "bias"),
    [
        ("affine", 2, 64, 16, 16),
        ("affine", 3, 64, 16, 16),
        ("affine", 5, 32, 16, 16),
        ("affine", 6, 128, 16, 16),
        ("mxfp4", 4, 32, 8, 0),
        ("mxfp8", 8, 32, 8, 0),
        ("nvfp4", 4, 16, 8, 0),
    ],
)
def test_modes_of_mlx(mode, bits, group, scale, bias):
    """mlx's quantize: a scale and a bias of 16 bits a group, or a byte of e8m0 or fp8 alone."""
    pack = in_groups(bits, group, scale, bias)
    own = {"group_size": group, "bits": bits, "mode": mode}
    whole = 2 * pack(*HEAD) + L * sum(pack(*shape) for shape in LINEARS.values()) + 2 * (2 * L + 1) * 256
    assert totals({**LLAMA, "quantization": own, "quantization_config": own})["bytes"] == whole


@every_row(("bits", "head"), [(4.25, 6), (2.4, 8), (6.0, 16)])
def test_bits_of_exl2_are_an_average(bits, head):
    """bartowski/magnum-12b-v2.5-kto-exl2 states bits 4.25 and head_bits 6."""
    stated = {"quant_method": "exl2", "version": "0.1.8", "bits": bits, "head_bits": head}
    linears = sum(out * inputs for out, inputs in LINEARS.values()) * L * bits / 8
    table_and_norms = OTHERS - plain(*HEAD)
    expected = table_and_norms + linears + HEAD[0] * HEAD[1] * head / 8
    assert totals({**LLAMA, "quantization_config": stated})["bytes"] == pytest.approx(expected, abs=29 * 7)


def test_settings_of_single_modules():
    """AutoRound's extra_config, torchao's by name, Quark's by pattern, and HQQ's by linear."""
    names = {"self_attn.q_proj": "model.layers.0.self_attn.q_proj"}
    extra = {names["self_attn.q_proj"]: {"bits": 16, "data_type": "float"}, "model.layers.1.mlp": {"bits": 8}}
    one = {**INT, "quant_method": "auto-round", "extra_config": extra}
    whole = OTHERS
    for i in range(L):
        for name, shape in LINEARS.items():
            is_plain = (i, name) == (0, "self_attn.q_proj")
            bits = 8 if i == 1 and name.startswith("mlp") else 4
            whole += plain(*shape) if is_plain else auto_round(*shape, bits)
    assert totals({**LLAMA, "quantization_config": one})["bytes"] == whole
    attention = [shape for name, shape in LINEARS.items() if name.startswith("self_attn")]
    network = [shape for name, shape in LINEARS.items() if name.startswith("mlp")]
    by_pattern = {"*self_attn*": {"weight": {**PER_TENSOR, "qscheme": "per_channel"}}}
    two = {"quant_method": "quark", "global_quant_config": {"weight": MX}, "exclude": ["lm_head"]}
    two["layer_quant_config"] = by_pattern
    packed = sum(a_row(8, 32)(*shape) for shape in attention) + sum(
        in_groups(4, 32, 8)(*shape) for shape in network
    )
    assert totals({**LLAMA, "quantization_config": two})["bytes"] == OTHERS + L * packed
    mapped = {"_default": WEIGHT_ONLY, "lm_head": None}
    three = torchao({"_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": mapped}})
    packed = sum(in_groups(4, 32, 16, 16)(*shape) for shape in LINEARS.values())
    assert totals({**LLAMA, "quantization_config": three})["bytes"] == OTHERS + L * packed


QWEN36 = {
    "model_type": "qwen3_5_text",
    "architectures": ["Qwen3_5ForCausalLM"],
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 48,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 248320,
    "tie_word_embeddings": False,
    "full_attention_interval": 4,
}
FULL = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
DELTA = ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj")
NETWORK = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def mixed():
    """nvidia/Qwen3.6-27B-NVFP4: FP8 for attention of both kinds, W4A16_NVFP4 for networks and the head."""
    layers = {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}
    for i in range(64):
        path = f"model.language_model.layers.{i}"
        fp8 = FULL if i % 4 == 3 else DELTA
        layers |= {f"{path}.{name}": {"quant_algo": "FP8"} for name in fp8}
        layers |= {f"{path}.{name}": {"quant_algo": "W4A16_NVFP4", "group_size": 16} for name in NETWORK}
    return {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "kv_cache_quant_algo": "FP8"}


MIXED_BYTES = 20_150_568_324
"""nvidia/Qwen3.6-27B-NVFP4: about 22 GB on disk with the tower and multi-token prediction."""


def test_a_mixed_precision_is_read_layer_by_layer():
    width = 6144
    fp8 = 16 * (2 * width * 5120 + 2 * 1024 * 5120 + 5120 * width)
    fp8 += 48 * ((2048 + 2048 + width) * 5120 + width * 5120 + 5120 * width)
    fp8_matrices = 16 * 4 + 48 * 3
    four = 64 * 3 * 17408 * 5120 + 248320 * 5120
    rest = 26_895_998_464 - fp8 - four  # table, norms, convolutions, in_proj_a and in_proj_b
    # two scales of fp32 a matrix of FP8, a byte for 16 values and one scale a matrix of four bits
    whole = fp8 + 8 * fp8_matrices + four // 2 + four // 16 + 4 * (64 * 3 + 1) + 2 * rest
    stated = {"quant_method": "modelopt", **mixed()}
    assert whole - MIXED_BYTES in {0, 8 * 48}  # whether qkv of a delta net is one matrix or three
    assert totals({**QWEN36, "quantization_config": stated})["bytes"] == MIXED_BYTES


LLAMA_70B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
FP8_FILE = {
    "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
}


@pytest.mark.long
@every_row(
    ("model", "file", "name", "size"),
    [
        (LLAMA_70B, {"producer": {"name": "modelopt"}, **FP8_FILE}, "config.json", 72_656_376_192),
        (LLAMA_70B, FP8_FILE, "nvidia--Llama-3.1-70B-Instruct-FP8.json", 72_656_376_192),
        (QWEN36, {"quantization": mixed()}, "config.json", MIXED_BYTES),
        ({**QWEN36, "quantization_config": modelopt("MIXED_PRECISION")}, mixed(), "config.json", MIXED_BYTES),
    ],
    ids=["fp8", "a file of another name", "mixed", "layers beside a mixed precision without them"],
)
def test_a_file_beside_says_how_weights_are_stored(tmp_path, model, file, name, size):
    """nvidia/Llama-3.1-70B-Instruct-FP8's hf_quant_config.json beside a config.json that says nothing."""
    folder = tmp_path / f"{name}-{size}-{len(str(model))}"
    folder.mkdir()
    (folder / name).write_text(json.dumps(model))
    (folder / "hf_quant_config.json").write_text(json.dumps(file))
    loaded = load(str(folder / name))
    assert count_params(loaded.model).totals["bytes"] == size
    assert "quantization_config is read from hf_quant_config.json beside it" in loaded.notes


@every_row(
    ("name", "content", "found"),
    [
        ("quantize_config.json", {"bits": 4, "group_size": 128, "desc_act": False}, True),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 128, "version": "GEMM"}, True),
        ("hf_quant_config.json", {"quantization": {"kv_cache_quant_algo": "FP8"}}, False),
        ("hf_quant_config.json", [1], False),
        ("hf_quant_config.json", "{", False),
    ],
)
def test_files_of_other_tools_and_files_that_say_nothing(tmp_path, name, content, found):
    folder = tmp_path / f"{name}-{len(str(content))}"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    loaded = load(str(folder))
    assert (loaded.model.quantization is not None) is found
    assert any(name in note for note in loaded.notes) is (found or not isinstance(content, dict))


EXPERTS = {
    **LLAMA,
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 4,
}
FP8 = {"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}


@every_row(
    ("stated", "beside", "pack"),
    [
        ({}, {"expert_dtype": "fp4"}, in_groups(4, 32, 8)),
        ({"expert_dtype": "fp4"}, {}, in_groups(4, 32, 8)),
        ({"moe_quant_algo": "NVFP4", "quant_algo": "MIXED_PRECISION"}, {"expert_dtype": "fp4"}, nvfp4),
    ],
)
def test_experts_of_deepseek_v4_have_four_bits(stated, beside, pack):
    """Its inference/model.py: two values a byte and a byte of e8m0 for 32; other scales in a byte, too."""

    def fp8(out, inputs):
        return out * inputs + -(-out // 128) * -(-inputs // 128)

    attention = sum(fp8(*shape) for name, shape in LINEARS.items() if name.startswith("self_attn"))
    experts = 4 * sum(pack(*shape) for name, shape in LINEARS.items() if name.startswith("mlp"))
    # the head is a linear layer of fp8 files as well, unless it is listed
    whole = OTHERS + L * (attention + experts + plain(4, 256))
    config = {**EXPERTS, **beside, "quantization_config": {**FP8, **stated}}
    assert totals(config)["bytes"] == whole


@every_row(
    ("name", "size"),
    [
        ("q4f16_1", in_groups(4, 32, 16)),
        ("q4f32_1", in_groups(4, 32, 32)),
        ("q3f16_1", in_groups(3, 40, 8 + 16)),
        ("q0f16", plain),
        ("e4m3_e4m3_f16", None),
    ],
)
def test_forms_of_mlc(name, size):
    """mlc_llm/quantization: the table and the head are packed as the layers are."""
    config = {"model_type": "llama", "quantization": name, "model_config": LLAMA}
    whole = 2 * (2 * L + 1) * 256
    if size is not None:
        whole += 2 * size(*HEAD) + L * sum(size(*shape) for shape in LINEARS.values())
    assert totals(config)["bytes"] == (None if size is None else whole)


@every_row(("bits", "size"), [(0, plain), (4, a_row(4, 16)), (8, a_row(8, 16)), (3, None)])
def test_the_bits_of_chatglm(bits, size):
    """quantization.py of THUDM's repositories: QuantizedLinear takes the place of the layers' matrices."""
    found = totals({**LLAMA, "quantization_bit": bits})["bytes"]
    whole = size and OTHERS + L * sum(size(*shape) for shape in LINEARS.values())
    assert found == whole


@every_row(
    ("stated", "size"),
    [
        ({"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}, a_row(8, 0, 64)),
        ({"qformat_weight": "fp8_e4m3", "qscheme_act": "NO_SCALES"}, a_row(8, 0, 32)),
        ({"qformat_weight": "nvfp4"}, None),
    ],
)
def test_the_quantization_of_a_params_json(stated, size):
    """Of Mistral's consolidated files: a scale of fp32 a matrix, and one of its inputs."""
    file = {"dim": 256, "n_layers": L, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 384, "vocab_size": 1000}
    file |= {"head_dim": 64, "norm_eps": 1e-5, "tied_embeddings": False, "quantization": stated}
    expected = size and OTHERS + L * sum(size(*shape) for shape in LINEARS.values())
    assert totals(file)["bytes"] == expected


def test_an_entry_for_every_expert_is_an_entry_for_all():
    """Exports of ModelOpt list each expert's matrices, or the experts of a layer at once."""
    names = ("w1", "w2", "w3")
    each = [
        f"model.layers.{i}.block_sparse_moe.experts.{n}.{w}"
        for i in range(L)
        for n in range(4)
        for w in names
    ]
    together = [f"model.layers.{i}.block_sparse_moe.experts" for i in range(L)]
    experts = 4 * sum(nvfp4(*shape) for name, shape in LINEARS.items() if name.startswith("mlp"))
    attention = sum(plain(*shape) for name, shape in LINEARS.items() if name.startswith("self_attn"))
    whole = OTHERS + L * (attention + experts + plain(4, 256))
    for entries in (each, together):
        layers = {"quantized_layers": {name: {"quant_algo": "NVFP4", "group_size": 16} for name in entries}}
        config = {**EXPERTS, "quantization_config": modelopt("MIXED_PRECISION", **layers)}
        loaded = load_text(json.dumps(config), "f")
        assert count_params(loaded.model).totals["bytes"] == whole
        assert not any("no module" in note for note in loaded.notes)


def test_an_expert_dtype_that_is_not_known_or_stands_alone():
    alone = {**EXPERTS, "expert_dtype": "fp4"}
    other = {**EXPERTS, "expert_dtype": "fp3", "quantization_config": FP8}
    for config in (alone, other):
        assert "expert_dtype" in load_text(json.dumps(config), "f").model.unknown_form
