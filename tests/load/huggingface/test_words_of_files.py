"""Words of published files beside those of transformers' classes, and files that are no config.json."""

import json

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 100,
}


def loaded(config):
    return load_text(json.dumps(config), "config.json")


def total(config):
    return count_params(loaded(config).model).totals["params"]


def refusal(config):
    with pytest.raises(ArchError) as caught:
        loaded(config)
    [problem] = caught.value.problems
    return problem.what, problem.hint


def test_nomic_embed_text_is_read_by_its_own_words():
    file = {
        "model_type": "nomic_bert",
        "architectures": ["NomicBertModel"],
        "activation_function": "swiglu",
        "n_embd": 768,
        "n_head": 12,
        "n_inner": 3072,
        "n_layer": 12,
        "n_positions": 8192,
        "vocab_size": 30528,
        "type_vocab_size": 2,
        "rotary_emb_base": 1000,
        "layer_norm_epsilon": 1e-12,
        **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "causal"), False),
    }
    layer = 4 * 768**2 + 3 * 768 * 3072 + 2 * 2 * 768
    assert total(file) == (30528 + 2) * 768 + 2 * 768 + 12 * layer == 136_731_648
    assert loaded(file).notes == ()
    assert refusal({**file, "activation_function": "gelu"}) == (
        "activation_function 'gelu' is not supported",
        "supported: 'swiglu'",
    )


def test_qwen_of_august_2023_is_read_by_its_own_words():
    file = {
        "architectures": ["QWenLMHeadModel"],
        "n_embd": 256,
        "n_layer": 2,
        "n_head": 2,
        "ffn_hidden_size": 1024,
        "kv_channels": 128,
        "n_positions": 6144,
        "vocab_size": 151936,
        "padded_vocab_size": 151936,
    }
    attention = 4 * 256**2 + 3 * 256
    layer = attention + 3 * 256 * (1024 // 2) + 2 * 256
    assert total(file) == 2 * 151936 * 256 + 2 * layer + 256


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa"])
def test_indexed_layers_have_the_name_of_older_files_too(kind):
    file = {"model_type": kind, "architectures": ["XForCausalLM"], "num_hidden_layers": 4}
    before, now = (
        {**file, "layer_types": [name] * 4} for name in ("deepseek_sparse_attention", "indexed_attention")
    )
    assert total(before) == total(now)


def test_the_text_part_of_exaone_4_5_is_exaone_4():
    text = {key: value for key, value in LLAMA.items() if key not in {"model_type", "architectures"}}
    whole = {"model_type": "exaone4_5", "architectures": ["Exaone4_5_ForConditionalGeneration"]}
    named = {**whole, "text_config": {**text, "model_type": "exaone4_5_text"}}
    assert total(named) == total({**whole, "text_config": {**text, "model_type": "exaone4"}})


def test_a_mistral_file_with_types_of_layers_is_a_ministral():
    """As AutoConfig of transformers takes it."""
    types = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16}
    file = {**LLAMA, **types, "model_type": "mistral"}
    cache = count_kv_cache(loaded(file).model, 1000)
    assert cache.totals["elements"] == (16 + 1000) * 2 * 64
    assert loaded(file).notes == ()


@pytest.mark.parametrize("name", ["LlamaForCausalLMEagle3", "DFlashDraftModel", "MedusaForCausalLM"])
def test_a_draft_model_is_no_plain_model_of_its_type(name):
    assert refusal({**LLAMA, "architectures": [name]}) == (
        "this model drafts for another, and its own parts are not known",
        "as a plain llama it would be miscounted",
    )


@pytest.mark.parametrize(("kind", "known"), {"phi4mm": "phi4_multimodal", "new": "gte"}.items())
def test_a_published_name_leads_to_that_of_transformers(kind, known):
    assert refusal({**LLAMA, "model_type": kind}) == (
        f"model_type '{kind}' is not supported",
        f"the class in transformers is of the type '{known}'",
    )


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen3_vl_moe"])
def test_a_flat_wrapper_states_a_size_too(kind):
    assert refusal({"model_type": kind, "num_labels": 2})[0].startswith("no size of the model is stated")


def test_a_width_in_words_of_other_classes_is_refused():
    file = {"model_type": "bloom", "hidden_dim": 4096, "n_head": 32, "n_layer": 30, "vocab_size": 250880}
    assert refusal(file) == (
        "hidden_dim is no key of bloom, whose width is n_embed",
        "without it the class has 64",
    )


def test_a_width_that_is_left_to_the_class_is_told():
    file = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    assert loaded(file).notes == ("hidden_size is not stated: 4,096, the default of its class",)


def test_a_size_said_twice_is_understood():
    """As in Falcon's files of 2023, which keep the words of their first class."""
    assert loaded({**LLAMA, "n_head": 4, "n_layer": 2}).notes == ()
    assert loaded({**LLAMA, "n_head": 8}).notes == ("the class of llama does not read 'n_head'",)


def test_files_beside_a_config_are_told_from_it(tmp_path):
    path = tmp_path / "hf_quant_config.json"
    path.write_text('{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}')
    with pytest.raises(ArchError) as caught:
        load(str(path))
    [problem] = caught.value.problems
    assert problem.what == "this file describes how weights are quantized, not an architecture"
    assert problem.hint == "give the config.json beside it"
