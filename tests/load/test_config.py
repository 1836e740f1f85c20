"""A config.json of Hugging Face is a model like any other: from a file, a folder or a text, with overrides, notes and clear answers."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from archcli.load.dump import to_yaml
from archcli.load.source import load, load_text
from archcli.measure.passes import forward_pass

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}
BERT = {"model_type": "bert", "architectures": ["BertModel"]}
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}


def total(model):
    return sum(row.params for row in forward_pass(model, 1, 1).rows)


@pytest.fixture
def folder(tmp_path):
    """A folder as the hub has it."""
    found = tmp_path / "tiny-llama"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(LLAMA, indent=2))
    return found


def test_a_config_is_the_model_that_the_yaml_describes(folder, tiny):
    ours = load_text(tiny.replace("        head_dim: 8\n", ""), "f").model
    loaded = load(str(folder / "config.json"))
    assert loaded.model == ours.model_copy(update={"source": loaded.model.source})
    assert total(loaded.model) == total(ours) == 2 * 1000 * 64 + 3 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 128 + 2 * 64) + 64
    assert (loaded.name, loaded.source, loaded.notes) == ("tiny-llama", str(folder / "config.json"), ())


def test_a_folder_is_its_config(folder):
    loaded, same = load(str(folder)), load(str(folder / "config.json"))
    assert loaded._replace(tree=same.tree) == same


def test_a_config_of_another_name_is_called_after_itself(folder):
    (folder / "config.json").rename(folder / "mine.json")
    assert load(str(folder / "mine.json")).name == "mine"


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(LLAMA).encode())))
    assert load("-").source == "<stdin>"


def test_a_config_can_be_overridden(folder):
    assert load(str(folder), ["d_ff=8"]).model.groups[0].layer.ffn.d_ff == 8


def test_every_setting_has_its_place(folder):
    assert str(load(str(folder)).mark("d_model")).startswith(f"{folder}/config.json as YAML:3:")


def test_notes_are_carried():
    loaded = load_text(json.dumps({**LLAMA, "architectures": ["LlamaModel"], "n_extra": 1}), "f.json")
    assert loaded.notes == (
        "LlamaModel has no output head: its parameters and FLOPs are not counted",
        "key 'n_extra' was not understood and may change the count",
    )


@pytest.mark.parametrize(("config", "params"), [(BERT, 109_482_240), (T5, 60_506_624)], ids=["bert-base", "t5-small"])
def test_encoders_and_encoder_decoders(config, params):
    model = load_text(json.dumps(config), "f.json").model
    assert total(model) == params
    assert load_text(to_yaml(model), "f").model == model


def test_our_limits_are_not_theirs():
    labels = {str(i): f"LABEL_{i}" for i in range(1000)}
    assert load_text("\ufeff" + json.dumps({**LLAMA, "id2label": labels}), "f").model.d_model == 64


# id: (what is put over LLAMA, the answer)
WRONG = {
    "type-unknown": ({"model_type": "lama"}, "f: model_type 'lama' is not supported; nearest known: llama, llama4, glm"),
    "type-missing": ({"model_type": None}, "f: key 'model_type' is missing; it names the family, such as llama"),
    "type-number": ({"model_type": 7}, "f: key 'model_type' is missing; it names the family, such as llama"),
    "type-with-halves": (
        {"model_type": "encoder-decoder", "encoder": {}, "decoder": {}},
        "f: model_type 'encoder-decoder' is not supported; nearest known: ",
    ),
    "key-missing": (
        {"model_type": "deepseek_v2"},
        "f: key 'num_experts_per_tok' is missing; the class of this model has no default for it",
    ),
    "many-layers": ({"num_hidden_layers": 10**9}, "f: num_hidden_layers 1000000000 is beyond reason; at most 100,000 are read"),
    "size-text": ({"hidden_size": "64"}, "f: hidden_size must be a whole number above 0, not '64'"),
    "size-list": ({"hidden_size": [64]}, "f: hidden_size must be a whole number above 0, not [64]"),
    "size-zero": ({"vocab_size": 0}, "f: vocab_size must be a whole number above 0, not 0"),
    "size-nan": ({"hidden_size": float("nan")}, "f: hidden_size must be a whole number above 0, not nan"),
    "flag-text": ({"attention_bias": "yes"}, "f: attention_bias must be true or false, not 'yes'"),
    "activation": ({"hidden_act": "mish"}, "f: activation 'mish' is not supported; known: relu, "),
    "kv-heads": ({"num_key_value_heads": 3}, "f as YAML:11:42: n_kv_heads 3 does not divide n_heads 8; 2 or 4 would"),
}


@pytest.mark.parametrize(("wrong", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_answered_once(wrong, said, refused):
    [found] = refused(json.dumps({**LLAMA, **wrong}))
    assert found.startswith(said)
    assert found == said or said.endswith((": ", ", "))
