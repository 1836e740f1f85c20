"""The family of a config.json: by its model_type, by its class, by the keys of the first files."""

import json

import pytest

from archcli.load.huggingface.importer import weight_map
from archcli.load.source import load, load_text
from archcli.load.yaml.text import MOST_BYTES, MOST_JSON

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 128,
}
FAMILY = "it names the family, such as llama; `archcli families` lists all"

# id: (model_type, the answer)
WRONG = {
    "near": ("lama", "1:16: model_type 'lama' is not supported; nearest known: llama, mllama, llama4; "),
    "halves": (
        "encoder-decoder",
        "1:16: model_type 'encoder-decoder' is not supported; nearest known: modernbert-decoder; ",
    ),
    "number": (7, f"1:16: model_type must be a string, not 7; {FAMILY}"),
    "list": (["llama"], f"1:16: model_type must be a string, not ['llama']; {FAMILY}"),
    "far": ("x" * 253, f"1:16: model_type '{'x' * 59}… is not supported; "),
}


@pytest.mark.parametrize(("kind", "said"), WRONG.values(), ids=WRONG)
def test_a_model_type_that_names_no_family_is_answered_once(kind, said, refused):
    list_of_all = "`archcli families` lists all" if said.endswith("; ") else ""
    assert refused(json.dumps({**LLAMA, "model_type": kind})) == [said + list_of_all]


GPT2 = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 40, "vocab_size": 61, "n_ctx": 40}


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("LlamaForCausalLM", "llama"),
        ("GPT2LMHeadModel", "gpt2"),
        ("GPTNeoXForCausalLM", "gpt_neox"),
        ("BertForMaskedLM", "bert"),
        ("MarianMTModel", "marian"),
        ("T5EncoderModel", "t5"),
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("Gemma3ForCausalLM", "gemma3"),
        ("LlavaForConditionalGeneration", "llava"),
        ("ChatGLMModel", "chatglm"),
        ("XLMWithLMHeadModel", "xlm"),
    ],
)
def test_without_model_type_the_class_tells_the_family(architecture, kind):
    stated = {"architectures": [architecture], "d_model": 64}
    loaded = load_text(json.dumps(stated), "f.json")
    named = load_text(json.dumps({"model_type": kind, **stated}), "f.json")
    assert loaded.model == named.model
    assert loaded.notes == (f"no model_type: read as {kind}, the family of {architecture}", *named.notes)
    assert weight_map(stated).rules == weight_map({"model_type": kind, **stated}).rules


def test_the_first_files_of_gpt2_are_told_by_their_keys():
    loaded = load_text(json.dumps(GPT2), "f.json")
    assert loaded.model == load_text(json.dumps({**GPT2, "model_type": "gpt2"}), "f.json").model
    assert loaded.notes[0] == "no model_type: read as gpt2, whose first files have these keys"


def test_files_of_mamba_ssm_are_told_by_their_keys():
    stated = {"d_model": 64, "n_layer": 2, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"}}
    loaded = load_text(json.dumps(stated), "f.json")
    assert loaded.model == load_text(json.dumps({**stated, "model_type": "mamba_ssm"}), "f.json").model
    assert loaded.notes == ("no model_type: read as mamba_ssm, whose files have these keys",)
    assert loaded.model.head is not None


MISSING = f"f: key 'model_type' is missing; {FAMILY}"
NEITHER = (
    "f: neither an architecture nor a config.json of a model; "
    "an architecture has vocab_size, d_model, norm and groups, a config.json model_type"
)
UNKNOWN = {
    "gpt-1": ({**GPT2, "afn": "gelu"}, MISSING),
    "ctrl": ({**GPT2, "dff": 8192}, MISSING),
    "sizes-alone": ({"hidden_size": 64, "num_hidden_layers": 2}, MISSING),
    "params.json": ({"dim": 4096, "n_layers": 32, "n_heads": 32, "norm_eps": 1e-5}, MISSING),
    "unknown-class": ({"architectures": ["FooForCausalLM"]}, MISSING),
    "null": ({**LLAMA, "model_type": None, "architectures": None}, MISSING),
    "another-json": ({"a": 1, "b": {"c": [2]}}, NEITHER),
}


@pytest.mark.parametrize(("config", "said"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_json_of_no_known_family_is_refused_in_a_line(config, said, refused):
    assert refused(json.dumps(config)) == [said]


def test_a_json_of_ours_is_read_as_ours(refused):
    assert refused('{"vocab_size": 10, "d_model": 8, "norm": "rmsnorm"}') == ["1:1: missing key groups"]


def test_a_config_with_a_setting_for_each_matrix_is_read(tmp_path, refused):
    names = [f"model.layers.{i}.mlp.experts.{j}.up_proj" for i in range(60) for j in range(700)]
    config = {
        **LLAMA,
        "quantization_config": {"quant": {name: {"bits": 4, "group_size": 128} for name in names}},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert 2 * MOST_BYTES < path.stat().st_size < MOST_JSON
    assert load(str(path)).model == load_text(json.dumps(LLAMA), str(path)).model
    large = json.dumps({**LLAMA, "x": "x" * MOST_JSON})
    assert refused(large) == ["f: larger than 8 MiB; an architecture is a few lines of text"]
    assert refused("{a: " + "x" * MOST_BYTES + "}") == [
        "f: larger than 1 MiB; an architecture is a few lines of text"
    ]
