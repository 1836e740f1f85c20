"""A folder of .safetensors is answered in the bytes of its tensors."""

import json
from math import prod
from struct import pack

import pytest

import archcli

V, D, F, L = 64, 32, 48, 2
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MATRICES = {
    "self_attn.q_proj": (D, D),
    "self_attn.k_proj": (D // 2, D),
    "self_attn.v_proj": (D // 2, D),
    "self_attn.o_proj": (D, D),
    "mlp.gate_proj": (F, D),
    "mlp.up_proj": (F, D),
    "mlp.down_proj": (D, F),
}
TENSORS = {
    "model.embed_tokens.weight": (V, D),
    "lm_head.weight": (V, D),
    "model.norm.weight": (D,),
    **{
        f"model.layers.{i}.{name}.weight": shape
        for i in range(L)
        for name, shape in {**MATRICES, "input_layernorm": (D,), "post_attention_layernorm": (D,)}.items()
    },
}
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1}


def folder(path, dtype_of, tensors=TENSORS):
    (path / "config.json").write_text(json.dumps(CONFIG))
    header, at = {}, 0
    for name, shape in tensors.items():
        end = at + prod(shape) * BYTES[dtype_of(name)]
        header[name] = {"dtype": dtype_of(name), "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    (path / "model.safetensors").write_bytes(pack("<Q", len(text)) + text + bytes(at))
    return at


def weights(path, **asked):
    return archcli.count_memory(path, "decode", seq_len=16, **asked).totals["parts"]["weights"]


def in_layers_fp8(name):
    return "F8_E4M3" if any(part in name for part in MATRICES) else "BF16"


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("dtype_of", [lambda _: "F32", lambda _: "BF16", in_layers_fp8])
def test_a_folder_takes_the_bytes_of_its_tensors(dtype_of, tmp_path):
    stored = folder(tmp_path, dtype_of)
    params = sum(map(prod, TENSORS.values()))
    assert weights(tmp_path) == stored
    assert weights(tmp_path, dtype="bf16") == 2 * params
    assert archcli.count_params(tmp_path).totals.get("published_bytes", 2 * params) == stored


def test_a_broken_file_leaves_the_bytes_of_bf16_and_is_named(tmp_path):
    folder(tmp_path, lambda _: "F32")
    (tmp_path / "model.safetensors").write_bytes(b"no header")
    report = archcli.count_memory(tmp_path, "decode", seq_len=16)
    assert report.totals["parts"]["weights"] == 2 * sum(map(prod, TENSORS.values()))
    assert any("the weights beside the config.json were not read" in note for note in report.notes)


@pytest.mark.long
def test_a_config_of_any_number_of_layers_has_no_form(tmp_path):
    folder(tmp_path, lambda _: "F32")
    config = {**CONFIG, "num_hidden_layers": 100_000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "published_bytes" not in archcli.count_params(tmp_path).totals
