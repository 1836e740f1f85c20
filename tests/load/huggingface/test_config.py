"""A config.json of Hugging Face is a model like any other.

From a file, a folder or a text, with overrides, notes and clear answers.
"""

import io
import json
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.load.spec.written import to_yaml
from archcli.measure.passes import forward_pass
from archcli.render.findings import explain
from table import every_row

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
BERT = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768}
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 512}


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
    assert loaded.model == ours.replace(source=loaded.model.source)
    assert (
        total(loaded.model)
        == total(ours)
        == 2 * 1000 * 64 + 3 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 128 + 2 * 64) + 64
    )
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


# our path: where it stands in the config.json of LLAMA, line by line
PLACES = {
    "d_model": "config.json:7:18",
    "norm.eps": "config.json:13:19",
    "max_seq_len": "config.json:12:30",
    "groups.0.n_layers": "config.json:8:24",
    "groups.0.layer.attention.n_kv_heads": "config.json:10:26",
    "groups.0.layer.attention.position.theta": "config.json:14:17",
    "groups.0.layer.ffn.d_ff": "config.json:11:24",
    "groups.0.layer.ffn.activation": "config.json:1:1",  # the class's default
}


@pytest.mark.parametrize(("path", "place"), PLACES.items())
def test_every_setting_has_its_place(path, place, folder):
    assert str(load(str(folder)).mark(path)) == f"{folder}/{place}"


def test_notes_are_carried():
    loaded = load_text(json.dumps({**LLAMA, "architectures": ["LlamaModel"], "n_extra": 1}), "f.json")
    assert loaded.notes == (
        "LlamaModel has no output head: its parameters and FLOPs are not counted",
        "the class of llama does not read 'n_extra'",
    )


@pytest.mark.parametrize(
    ("config", "params"), [(BERT, 109_482_240), (T5, 60_506_624)], ids=["bert-base", "t5-small"]
)
def test_encoders_and_encoder_decoders(config, params):
    model = load_text(json.dumps(config), "f.json").model
    assert total(model) == params
    assert load_text(to_yaml(model), "f").model == model


def test_our_limits_are_not_theirs():
    labels = {str(i): f"LABEL_{i}" for i in range(1000)}
    assert load_text("\ufeff" + json.dumps({**LLAMA, "id2label": labels}), "f").model.d_model == 64


# id: (what is put over LLAMA, the answer)
WRONG = {
    "key-missing": (
        {"model_type": "deepseek_v2", "topk_method": "group_limited_greedy"},
        "f: key 'n_group' is missing; the class of this model has no default for it",
    ),
    "many-layers": (
        {"num_hidden_layers": 10**9},
        "1:124: num_hidden_layers 1000000000 is beyond reason; at most 100,000 are read",
    ),
    "size-text": ({"hidden_size": "64"}, "1:99: hidden_size must be a whole number above 0, not '64'"),
    "size-list": ({"hidden_size": [64]}, "1:99: hidden_size must be a whole number above 0, not [64]"),
    "size-zero": ({"vocab_size": 0}, "1:78: vocab_size must be a whole number above 0, not 0"),
    "size-nan": ({"hidden_size": float("nan")}, "1:99: hidden_size must be a whole number above 0, not nan"),
    "flag-text": ({"attention_bias": "yes"}, "1:302: attention_bias must be true or false, not 'yes'"),
    "activation": ({"hidden_act": "mish"}, "1:298: activation 'mish' is not supported; known: relu, "),
    "kv-heads": ({"num_key_value_heads": 3}, "1:176: n_kv_heads 3 does not divide n_heads 8; use 2 or 4"),
}


@every_row(("wrong", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_answered_once(wrong, said, refused):
    [found] = refused(json.dumps({**LLAMA, **wrong}))
    assert found.startswith(said)
    assert found == said or said.endswith((": ", ", "))


def test_a_mistake_is_shown_in_the_file_it_is_in(folder):
    (folder / "config.json").write_text(json.dumps({**LLAMA, "num_key_value_heads": 3}, indent=2))
    with pytest.raises(ArchError) as caught:
        load(str(folder))
    assert explain(caught.value).splitlines() == [
        f"{folder}/config.json:10:26: error: n_kv_heads 3 does not divide n_heads 8",
        '      "num_key_value_heads": 3,',
        "                             ^",
        "  = help: use 2 or 4",
    ]


def test_the_place_is_that_of_the_key_that_is_meant(refused):
    text = {
        "max_position_embeddings": 128,
        "num_attention_heads": 8,
        "num_key_value_heads": 3,
        "vocab_size": 1000,
        "hidden_size": 64,
    }
    vision = {
        "num_key_value_heads": 5,
        "note": 'a "num_key_value_heads": 3 in a text',
        "num_attention_heads": True,
    }
    config = {
        "model_type": "gemma3",
        "vision_config": vision,
        "text_config": {"model_type": "gemma3_text", "head_dim": 8, **text},
    }
    written = json.dumps(config, indent=1)
    line = [
        i
        for i, line in enumerate(written.split("\n"), 1)
        if '"num_key_value_heads": 3,' in line and "note" not in line
    ]
    assert refused(written) == [f"{line[0]}:26: n_kv_heads 3 does not divide n_heads 8; use 2 or 4"]


ODD_WIDTH = (
    "RoPE rotates dimensions in pairs, and head_dim is 7; state an even head_dim, or an even rotary_dim"
)

# id: (what is put over LLAMA, the line that is pointed at, what of it, the answer)
PLACED = {
    "derived-from-the-width": ({"hidden_size": 60}, "hidden_size", "60", ODD_WIDTH),
    "derived-from-the-heads": (
        {"hidden_size": None, "num_attention_heads": 585},
        "num_attention_heads",
        "585",
        ODD_WIDTH,
    ),
    "stated": ({"head_dim": 7}, "head_dim", "7", ODD_WIDTH),
    "nested": (
        {"rope_scaling": {"rope_type": "llama3", "factor": "eight"}},
        "factor",
        '"eight"',
        "the rope parameters need a number 'factor'",
    ),
    "kind-of-scaling": (
        {"rope_scaling": {"factor": 8.0, "rope_type": "odd"}},
        "rope_type",
        '"odd"',
        (
            "rope scaling 'odd' is not supported; "
            "known: default, linear, dynamic, llama3, yarn, longrope, su, proportional"
        ),
    ),
}


@pytest.mark.parametrize(("put", "key", "value", "said"), PLACED.values(), ids=PLACED)
def test_a_mistake_is_shown_at_the_key_that_it_comes_from(put, key, value, said):
    with pytest.raises(ArchError) as caught:
        load_text(json.dumps({**LLAMA, "num_key_value_heads": None, **put}, indent=2), "f")
    [problem] = caught.value.problems
    start = problem.mark.column - 1
    assert problem.mark.text.lstrip().startswith(f'"{key}": ')
    assert problem.mark.text[start : start + problem.mark.width] == value
    assert str(problem) == f"f:{problem.mark.line}:{problem.mark.column}: {said}"


def test_a_mistake_in_what_the_file_does_not_say_has_no_place(refused):
    config = {"model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "num_attention_heads": 20}
    assert refused(json.dumps(config)) == ["f: n_kv_heads 32 does not divide n_heads 20; use 20"]


MOE = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "head_dim": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 48,
    "num_experts": 48,
    "mlp_only_layers": [0],
    "norm_topk_prob": True,
    "hidden_act": "gelu",
    "attention_bias": True,
    "tie_word_embeddings": False,
    "rope_scaling": {"type": "linear", "factor": 48},
}

# our path: the key, whose value many others share
KEYS = {
    "groups.0.layer.ffn.d_ff": "intermediate_size",
    "groups.1.layer.ffn.expert.d_ff": "moe_intermediate_size",
    "groups.1.layer.ffn.expert.activation": "hidden_act",
    "groups.1.layer.ffn.n_experts": "num_experts",
    "groups.1.layer.ffn.router.normalized": "norm_topk_prob",
    "groups.1.layer.attention.bias": "attention_bias",
    "groups.1.layer.attention.position": "head_dim",
    "groups.1.layer.attention.position.scaling.factor": "factor",
    "groups.1.layer.attention.position.scaling.kind": "type",
    "embedding.tied": "tie_word_embeddings",
}


@every_row(("path", "key"), KEYS.items())
def test_keys_of_equal_values_are_told_apart(path, key):
    mark = load_text(json.dumps(MOE, indent=1), "f").mark(path)
    assert mark.text.lstrip().startswith(f'"{key}": ')


def test_an_override_changes_what_a_key_says():
    loaded = load_text(json.dumps(MOE, indent=1), "f", ["groups.1.layer.ffn.expert.d_ff=56"])
    assert loaded.model.groups[1].layer.ffn.expert.d_ff == 56
    assert loaded.model.groups[0].layer.ffn.d_ff == 48
    assert str(loaded.mark("groups.1.layer.ffn.expert.d_ff")) == "--set:1:38"


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("key", ["hidden_size", "extra", "rope_scaling"])
def test_a_value_nested_as_deep_as_python_reads_is_no_traceback(key):
    for depth in range(800, 1000):
        nested = "[" * depth + "]" * depth
        value = f'{{"type": "linear", "factor": 2, "x": {nested}}}' if key == "rope_scaling" else nested
        with suppress(ArchError):
            load_text(json.dumps(LLAMA)[:-1] + f', "{key}": {value}}}', "f")


def test_an_override_keeps_its_own_place(refused):
    [found] = refused(json.dumps(LLAMA), "n_kv_heads=3")
    assert found == "--set:1:18: n_kv_heads 3 does not divide n_heads 8; use 2 or 4"


def test_experts_per_token_that_no_one_states_are_counted_as_one_with_a_note():
    loaded = load_text(json.dumps({"model_type": "deepseek_v2", "hidden_size": 4096}), "f.json")
    assert loaded.model.groups[0].layer.ffn.top_k == 1
    assert any("num_experts_per_tok" in note for note in loaded.notes)
