"""The type of the cache is the engine's default, whatever the weights are packed in, or the file's scheme."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from table import every_row

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 32_000,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
GROUP = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {"g": GROUP},
}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}
SCHEMES = [
    (COMPRESSED, None),
    ({**COMPRESSED, "kv_cache_scheme": None}, None),
    ({**COMPRESSED, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
    ({**COMPRESSED, "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
    ({**MODELOPT, "kv_cache_quant_algo": "FP8"}, "fp8"),
    ({**MODELOPT, "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
    (MODELOPT, None),
    (
        {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
        "fp8",
    ),
]
TOKENS = 4096
ELEMENTS = TOKENS * 4 * 2 * 2 * 128
"""Layers, keys and values, heads of 128."""


@pytest.fixture
def served(tmp_path):
    def ask(scheme, **options):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, "quantization_config": scheme}))
        report = archcli.count_memory(str(path), "serve", seq_len=TOKENS, **options)
        return report.inputs["kv_dtype"], report.totals["parts"]["cache"]

    return ask


@every_row(("scheme", "dtype"), SCHEMES, ids=str)
def test_a_cache_is_in_16_bits_unless_the_file_has_scales_for_another(served, scheme, dtype):
    kept, size = served(scheme, engine="vllm")
    assert kept == (dtype or "bf16")
    assert size == {"bf16": 2, "fp8": 1}.get(kept, size / ELEMENTS) * ELEMENTS


def test_what_is_stated_comes_before_the_files_scheme(served):
    scheme = {**COMPRESSED, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert served(scheme, engine="vllm", kv_dtype="bf16") == ("bf16", 2 * ELEMENTS)
    # of other weights the file says nothing
    assert served(scheme, engine="vllm", dtype="bf16") == ("bf16", 2 * ELEMENTS)


def test_fp8_weights_have_half_of_the_context_and_a_note_says_what_fp8_would_hold():
    """An fp8 cache was said of Llama 3.1 70B on an H100, and vLLM has one in bf16 by default."""
    totals = archcli.fit("llama-3.1-70b", "h100-sxm", dtype="fp8").totals
    smaller = archcli.fit("llama-3.1-70b", "h100-sxm", dtype="fp8", kv_dtype="fp8").totals
    assert totals["context"] == pytest.approx(smaller["context"] / 2, rel=0.1)
    assert totals["change"]["text"] == f"A cache in fp8 holds {smaller['context']:,} tokens: --kv-dtype fp8."


def test_predict_and_memory_keep_the_same_cache():
    asked = {"dtype": "fp8", "seq_len": 2048, "batch_size": 8}
    predicted = archcli.predict("llama-3.1-8b", "h100-sxm", phase="decode", **asked)
    memory = archcli.count_memory("llama-3.1-8b", "decode", device="h100-sxm", **asked).totals
    assert predicted.totals["needed_bytes"] == memory["peak_bytes"] + memory["beyond_bytes"]
    assert "cache in" not in predicted.title


def test_an_engine_without_that_type_keeps_its_own(served):
    with pytest.raises(ArchError, match="MLX does not read"):
        served(COMPRESSED, engine="mlx", dtype="fp8")
    assert (
        archcli.count_memory("llama-3.1-8b", "decode", dtype="fp8", engine="none").inputs["kv_dtype"]
        == "bf16"
    )
