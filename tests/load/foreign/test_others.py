"""Files of other programs: what they are is said in one line, and none is opened that could run code."""

import json
import os
import pickle

import pytest

from archcli.errors import ArchError
from archcli.load.foreign.others import ENDINGS
from archcli.load.source import load
from gguf_files.file import gguf
from gguf_files.tiny import LLAMA, TENSORS
from table import every_row


class Bomb:
    """Whatever unpickles this writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@every_row("ending", ENDINGS)
def test_an_ending_is_refused_and_nothing_is_opened(ending, tmp_path):
    bomb, path = tmp_path / f"bomb{ending}.written", tmp_path / f"model{ending}"
    path.write_bytes(pickle.dumps(Bomb(str(bomb))))
    with pytest.raises(ArchError) as caught:
        load(str(path))
    (problem,) = caught.value.problems
    assert str(problem) == f"{path}: {ENDINGS[ending]}; give the config.json beside it"
    assert not bomb.exists()


JSON = {
    "genai_config.json": ({"model": {"decoder": {"hidden_size": 4}}, "search": {}}, "ONNX Runtime"),
    "keras.json": ({"module": "keras", "class_name": "Functional", "config": {}}, "a model of Keras"),
    "trt.json": ({"version": "1", "pretrained_config": {}, "build_config": {}}, "TensorRT-LLM's builder"),
    "ds_config.json": ({"zero_optimization": {"stage": 3}}, "DeepSpeed's settings"),
    "vocabulary.json": ({"added_tokens": [], "model": {"type": "BPE"}}, "a tokenizer"),
    "pytorch_model.bin.index.json": ({"weight_map": {"a": "b.bin"}}, "an index of shards that are pickles"),
}
YAML = {
    "litgpt.yaml": ("name: a\nhf_config: {org: b}\nn_embd: 64\nn_layer: 2\n", "litgpt's settings"),
    "olmo.yaml": ("run_name: a\nmodel: {d_model: 64, mlp_ratio: 4}\n", "OLMo's settings"),
    "olmo-core.yaml": ("model: {_CLASS_: olmo_core.nn.Transformer}\n", "OLMo-core's settings"),
    "nanotron.yaml": ("general: {run: a}\nmodel: {model_config: {hidden_size: 64}}\n", "nanotron's settings"),
    "nemo.yaml": ("trainer: {devices: 8}\nmodel: {num_layers: 2, hidden_size: 64}\n", "NeMo's settings"),
    "megatron.yaml": ("language_model: {num_layers: 2}\nmodel_parallel: {}\n", "Megatron-LM's settings"),
    "neox.yml": ("num_layers: 2\nhidden_size: 64\npipe_parallel_size: 1\n", "GPT-NeoX's settings"),
    "tune.yaml": ("model: {_component_: torchtune.models.llama3.llama3_8b}\n", "torchtune's settings"),
    "factory.yaml": ("model_name_or_path: a/b\nfinetuning_type: lora\n", "LLaMA-Factory's settings"),
    "axolotl.yaml": ("base_model: a/b\ndatasets: []\n", "axolotl's settings"),
    "maxtext.yml": ("base_emb_dim: 64\nbase_num_query_heads: 4\n", "MaxText's settings"),
    "hydra.yaml": ("model: {_target_: nemo.GPT}\n", "Hydra's settings"),
    "merge.yaml": ("models: [{model: a}]\nmerge_method: ties\n", "mergekit's recipe"),
}


def texts():
    yield from ((name, json.dumps(data), said) for name, (data, said) in JSON.items())
    yield from ((name, text, said) for name, (text, said) in YAML.items())


@every_row(("name", "text", "said"), texts(), ids=[*JSON, *YAML])
def test_settings_of_another_program_are_refused_in_a_line(name, text, said, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ArchError) as caught:
        load(str(path))
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{path}: no architecture but {said}") or said in problem.what


def test_a_yaml_without_any_key_of_an_architecture_is_refused_in_a_line(refused):
    (line,) = refused("services: {web: 1}\nimages: []\nports: 3\n")
    assert line.startswith("f: no key of an architecture; its keys are services, images, ports; ")


@every_row("kind", ["moe", "dense", "transformer"])
def test_a_model_type_of_another_program(kind, refused):
    (line,) = refused(json.dumps({"model_type": kind, "hidden_size": 64}))
    assert "no class of transformers is called so: another program wrote the file" in line


def test_the_nearest_model_types_are_kin(refused):
    (line,) = refused(json.dumps({"model_type": "deepseek_v9", "hidden_size": 64}))
    near = line.partition("nearest known: ")[2].partition(";")[0].split(", ")
    assert near
    assert all(name.startswith("deepseek_v") and name[10:].isdigit() for name in near)


def modelfile(tmp_path, text):
    path = tmp_path / "Modelfile"
    path.write_text(text)
    return load(str(path))


def test_a_modelfile_is_the_model_it_begins_from(tmp_path):
    loaded = modelfile(
        tmp_path, '# made by hand\n\nfrom llama3.1:8b\nADAPTER ./a.gguf\nSYSTEM """FROM x"""\n'
    )
    assert loaded.model == load("llama-3.1-8b").model
    assert loaded.source == str(tmp_path / "Modelfile")
    assert loaded.notes[0] == "its ADAPTER is not counted"


def test_a_modelfile_names_a_gguf_file_beside_it(tmp_path):
    (tmp_path / "sha256-1").write_bytes(gguf(LLAMA, TENSORS))
    (tmp_path / "elsewhere").mkdir()
    assert (
        modelfile(tmp_path, "FROM ./sha256-1\n").model.d_model
        == load(str(tmp_path / "sha256-1")).model.d_model
    )


@every_row("name", ["./nothing.gguf", "Modelfile", "-", "os:system"])
def test_a_modelfile_of_an_unknown_model_is_refused_in_a_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchError) as caught:
        modelfile(tmp_path, f"FROM {name}\n")
    (problem,) = caught.value.problems
    assert problem.what == f"FROM '{name}': no preset or model of the hub '{name}'"


def test_a_pipe_that_a_file_names_is_not_waited_for(tmp_path):
    """To open a pipe that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(ArchError, match="no preset or model of the hub"):
        modelfile(tmp_path, f"FROM {tmp_path}\n")


@every_row(("name", "preset"), [("llama3.1:8b", "llama-3.1-8b"), ("Qwen3-8B", "qwen3-8b")])
def test_names_of_catalogues_find_their_preset(name, preset):
    assert load(name).model == load(preset).model
