"""`archcli export`: a config.json whose class in transformers is the model, and what is refused."""

import json

import pytest

import archcli
from archcli.api.asking.subject import subject
from archcli.errors import ArchError
from archcli.load.foreign.class_names import preset_types
from archcli.wings.shapes.api.export import ExportOptions, export_of
from archcli.wings.shapes.export.families import has_class
from archcli.wings.shapes.export.settings import Settings, runs_alike

OWN = """name: own
vocab_size: 50304
d_model: 2048
max_seq_len: 8192
norm: {kind: rmsnorm, eps: 1e-6}
embedding: {tied: true}
groups:
  - n_layers: 28
    layer:
      kind: pre_norm
      attention:
        kind: gqa
        n_heads: 16
        n_kv_heads: 4
        head_dim: 128
        position: {kind: rope, theta: 1000000}
        qk_norm: {per: head}
      ffn: {kind: glu, activation: silu, d_ff: 6144}
"""
FIRST = {kind: name for name, kind in sorted(preset_types().items(), reverse=True) if has_class(kind)}
"""The first preset of each model_type that has a class."""
INEXACT = {"deberta-v3-base"}
"""Presets whose file is not found: `pos_att_type` is a list of words."""
TIED = {"flan-t5-xxl": 32_128 * 4_096}
"""The head's own table, which the class of transformers 5 ties whatever the file says: a note tells it."""


@pytest.fixture
def own(tmp_path):
    """A YAML of a model of one's own."""
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    return file


def config_of(name):
    """The exported config.json of a model."""
    return json.loads(export_of(subject(str(name), []), ExportOptions(str(name))).text)


def params_of_class(config):
    """The parameters of the class in transformers on the meta device, with frozen ones that files store."""
    import their_class

    model = their_class.built(config)
    computed = set(model._keys_to_ignore_on_save or ())
    frozen = [p for name, p in model.named_parameters() if not p.requires_grad and name not in computed]
    return their_class.params(model) + sum(p.numel() for p in frozen)


def test_a_file_has_the_keys_of_its_class():
    # as meta-llama/Llama-3.1-8B's own config.json states them
    stated = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
    }
    config = config_of("llama-3.1-8b")
    assert stated.items() <= config.items()
    scaling = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert scaling.items() <= config["rope_scaling"].items()


@pytest.mark.long
def test_a_yaml_of_ones_own_finds_a_class_that_has_all_of_it(own):
    config = config_of(own)
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    # table and head are one; attention, its two norms of 128, the network, and two norms a layer
    layer = 2048 * 128 * (16 + 4 + 4 + 16) + 2 * 128 + 3 * 2048 * 6144 + 2 * 2048
    assert params_of_class(config) == 50304 * 2048 + 28 * layer + 2048


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", sorted(FIRST.values()))
def test_the_class_has_the_parameters_of_the_preset_and_reading_the_file_gives_its_rows(name):
    if name in INEXACT:
        with pytest.raises(ArchError, match="whose import is"):
            config_of(name)
        return
    loaded = subject(name, []).model
    model = loaded.replace(towers=(), beside=())
    config = config_of(name)
    back = archcli.load(config)
    assert not Settings(back).differing(Settings(model)) or runs_alike(back, model)
    counted = archcli.count_params(model).totals["params"]
    assert params_of_class(config) == counted - TIED.get(name, 0)


@pytest.mark.long
def test_a_file_without_a_class_is_a_base_model(tmp_path):
    file = tmp_path / "config.json"
    config = {key: value for key, value in config_of("llama-3.1-8b").items() if key != "architectures"}
    file.write_text(json.dumps(config))
    again = config_of(file)
    assert again["architectures"] == ["LlamaModel"]
    # without the head: 128,256 x 4,096 fewer
    assert params_of_class(again) == 8_030_261_248 - 128_256 * 4_096


@pytest.mark.parametrize("name", ["bart-large", "gpt2"])
def test_a_file_whose_sizes_are_its_classs_defaults_states_them(tmp_path, cli, name):
    folder = tmp_path / "again"
    assert cli("export", name, "-o", folder).code == 0
    assert archcli.count_params(folder).totals["params"] == archcli.count_params(name).totals["params"]


@pytest.mark.long
def test_a_design_and_its_file_are_compared_and_do_not_differ(tmp_path, cli, own):
    folder = tmp_path / "written"
    assert cli("export", own, "-o", folder).code == 0
    totals = json.loads(cli("compare", own, folder / "config.json", "--json").out)["totals"]
    layer = 2048 * 128 * (16 + 4 + 4 + 16) + 2 * 128 + 3 * 2048 * 6144 + 2 * 2048
    assert totals["differences"] == 0
    assert totals["figures"]["params"]["values"] == [50304 * 2048 + 28 * layer + 2048] * 2


def test_a_yaml_is_the_model_again(tmp_path, cli):
    file = tmp_path / "again.yaml"
    assert cli("export", "gemma-3-12b", "--to", "yaml", "-o", file).code == 0
    assert archcli.load(file) == archcli.load("gemma-3-12b")


def test_a_folder_is_made_and_read(tmp_path, cli):
    folder = tmp_path / "small"
    done = cli("export", "gpt2", "--set", "n_layers=6", "-o", folder)
    assert (done.code, done.out) == (0, "")
    assert (folder / "config.json").exists()
    assert archcli.count_params(folder).totals["params"] == 124_439_808 - 6 * 7_087_872


def test_a_folder_with_a_file_is_left_as_it_is(tmp_path, cli):
    (tmp_path / "config.json").write_text("{}")
    done = cli("export", "gpt2", "-o", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "config.json exists" in done.err
    assert (tmp_path / "config.json").read_text() == "{}"


@pytest.mark.long
def test_what_no_class_has_is_named_and_nothing_is_written(tmp_path, cli):
    changed = "groups.0.layer.norm.kind=rmsnorm"
    done = cli("export", "gpt2", "--model-type", "gpt2", "--set", changed, "-o", tmp_path / "new")
    assert done.code == 2
    assert "no config.json was found whose import is gpt2" in done.err
    assert "layers.norm.kind" in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [["--to", "keras"], ["--model-type", "lama"]])
def test_an_unknown_target_or_class_is_an_error_in_a_line(cli, words):
    done = cli("export", "gpt2", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("error:") == 1


def test_what_a_class_makes_of_a_file_is_noted(cli):
    done = cli("export", "flan-t5-xxl")
    assert "note: the head has a table of its own, as in T5 v1.1; the class since transformers 5" in done.err


@pytest.mark.long
def test_parts_that_are_left_out_are_named(cli):
    done = cli("export", "gemma-3-4b-vision")
    assert done.code == 0
    assert "note: the vision tower and projector are left out" in done.err


@pytest.mark.long
def test_a_file_of_pytorch_says_what_it_leaves_out(tmp_path, cli):
    file = tmp_path / "model.py"
    done = cli("export", "deepseek-v3", "--to", "torch", "-o", file)
    assert (done.code, done.out) == (0, "")
    assert "note: multi-token prediction has its parameters, and no forward" in done.err
    assert "class Model(nn.Module):" in file.read_text()


def test_layers_that_share_their_weights_are_another_model():
    model = archcli.load("tinyllama-1.1b")
    assert not runs_alike(model, archcli.load("tinyllama-1.1b", ["groups.0.tie=true"]))


def test_a_model_that_predicts_further_tokens_is_another_one():
    model = archcli.load("deepseek-v3")
    assert runs_alike(model, model)
    assert not runs_alike(model.replace(mtp=None), model)
