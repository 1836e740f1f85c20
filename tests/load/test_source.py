"""What MODEL may be: a file, a preset, standard input; and how anything else is answered."""

import io
import json
import os
import re
import sys
from types import SimpleNamespace

import pytest

import archcli.load
from archcli.errors import ArchError
from archcli.load.hub.aliases import respelled
from archcli.load.presets import preset_text, presets
from archcli.load.source import load, load_preset
from archcli.load.spec.written import to_mapping
from table import every_row, sampled_rows


def answer(model, *overrides):
    with pytest.raises(ArchError) as caught:
        load(str(model), overrides)
    return str(caught.value)


@pytest.fixture
def file(tmp_path, tiny):
    path = tmp_path / "tiny.yaml"
    path.write_text(tiny)
    return path


def test_a_file(file):
    loaded = load(str(file))
    assert (loaded.name, loaded.source, loaded.model.d_model) == ("tiny-llama", str(file), 64)


def test_a_file_without_a_name_is_called_after_itself(file, tiny):
    file.write_text(tiny.replace("name: tiny-llama\n", ""))
    assert load(str(file)).name == "tiny"


def test_json_with_our_keys(file, tmp_path):
    model = load(str(file)).model
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(to_mapping(model), indent="\t"))
    assert load(str(path)).model == model


def test_a_file_of_any_name(file, tmp_path):
    path = file.rename(tmp_path / "tiny.arch")
    assert load(str(path)).model.d_model == 64


def test_standard_input(tiny, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(tiny.encode())))
    loaded = load("-", ["d_ff=8"])
    assert (loaded.name, loaded.source, loaded.model.groups[0].layer.ffn.d_ff) == ("tiny-llama", "<stdin>", 8)


@sampled_rows("name", presets(), 4)
def test_every_preset_loads_under_its_own_name(name):
    loaded = load(name)
    assert (loaded.name, loaded.source) == (name, f"preset {name}")
    assert loaded.model.source
    assert loaded.model == load_preset(name).model


def test_a_preset_is_its_file():
    assert "d_model: 4096" in preset_text("llama-3.1-8b")


def test_a_file_comes_before_a_preset_and_a_folder_after_it(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert load("gpt2").source == "preset gpt2"
    assert load("tiny.yaml").source == "tiny.yaml"


def test_the_package_can_be_called(file):
    assert archcli.load(str(file)) == load(str(file)).model


def test_every_setting_has_its_place(file):
    loaded = load(str(file))
    assert str(loaded.mark("groups.0.layer.ffn.d_ff")) == f"{file}:18:48"
    assert str(loaded.mark("groups.0.layer.ffn.bias")) == f"{file}:18:7"
    assert str(loaded.mark("groups.0.layer.norm.eps")) == f"{file}:10:5"
    assert str(loaded.mark("head.bias")) == f"{file}:1:1"


# id: (MODEL, the answer); {} is a folder with tiny.yaml
LAMA = (
    "model_type 'lama' is not supported; nearest known: llama, mllama, llama4; `archcli families` lists all; "
    "params, flops, memory, show and summary count transformers' class, if any"
)
ABSENT = {
    "nothing": ("", "no file or preset ''; `archcli list` names the presets"),
    "file": ("{}/tny.yaml", "tny.yaml'; did you mean tiny.yaml or binary.yaml?"),
    "file-of-a-preset": ("gpt2.yaml", "no file 'gpt2.yaml'; did you mean gpt2?"),
    "preset": (
        "lama-2-7b",
        "no file or preset 'lama-2-7b'; did you mean llama-2-7b, llama-2-70b or llama-1-7b?",
    ),
    "nothing-near": ("qqqqqq", "no file or preset 'qqqqqq'; `archcli list` names the presets"),
    "outside-the-presets": (
        "../presets/gpt2",
        "no file or preset '../presets/gpt2'; `archcli list` names the presets",
    ),
    "very-long": (9999 * "x", f"no file or preset '{399 * 'x'}…'; `archcli list` names the presets"),
    "nul": ("a\0b", "no file or preset 'a\\x00b'; `archcli list` names the presets"),
    "not-unicode": ("\udcff", "no file or preset '\\udcff'; `archcli list` names the presets"),
    "dots": ("..", "..: this is a folder without a config.json; give a YAML file, or the name of a preset"),
    "folder": ("{}", "this is a folder without a config.json; give a YAML file, or the name of a preset"),
    "folder-called-yaml": (
        "{}/folder.yaml",
        "this is a folder without a config.json; give a YAML file, or the name of a preset",
    ),
    "folder-of-hugging-face": (
        "{}/hub",
        f"hub/config.json:1:16: {LAMA}",
    ),
    "gguf": ("{}/x.gguf", "x.gguf: the file ends within its header; an unfinished download?"),
    "binary": ("{}/binary.yaml", "a binary file; an architecture is a YAML or JSON text"),
    "endless": ("/dev/zero", "/dev/zero: a device, no file; standard input is read as -"),
    "config": (
        "{}/hub/config.json",
        f"hub/config.json:1:16: {LAMA}",
    ),
}


@pytest.mark.sample(13, whole=True)
@pytest.mark.parametrize(("model", "said"), ABSENT.values(), ids=ABSENT)
def test_what_is_no_model_is_answered(model, said, file, monkeypatch):
    (file.parent / "below").mkdir()
    monkeypatch.chdir(file.parent / "below")  # whatever lies around the clone
    (file.parent / "folder.yaml").mkdir()
    (file.parent / "hub").mkdir()
    (file.parent / "hub" / "config.json").write_text('{"model_type": "lama"}')
    (file.parent / "x.gguf").write_bytes(b"GGUF")
    (file.parent / "binary.yaml").write_bytes(bytes(range(256)))
    found = answer(model.replace("{}", str(file.parent)))
    assert found.endswith(said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(file):
    file.chmod(0)
    assert answer(file) == f"{file}: cannot be read: Permission denied"


def test_an_unknown_preset_is_answered_by_name():
    with pytest.raises(ArchError, match="did you mean gpt2"):
        preset_text("gtp2")


@pytest.mark.parametrize("name", ["llama3.1:8b", "Qwen3-8B", "gpt-oss:20b", "GPT2", "deepseek_v3"])
def test_a_preset_is_known_by_its_letters_and_digits(name):
    assert load(name).model == load(respelled(name)).model
    assert re.sub("[-.]", "", respelled(name)) == re.sub("[-_:.]", "", name.lower())


@pytest.mark.long
def test_no_two_presets_have_the_same_letters_and_digits():
    assert [respelled(name) for name in presets()] == presets()


# id: (a name of another catalogue, its preset)
ELSEWHERE = {
    "tag-of-a-file": ("qwen2.5:7b-instruct-q4_K_M", "qwen2.5-7b-instruct"),
    "tuned": ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
    "stored": ("Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b"),
    "dated": ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-2507"),
    "versions": ("mistral:7b", "mistral-7b-v0.3"),
    "beginning": ("phi3:mini", "phi-3-mini-4k"),
    "tag": ("deepseek-r1:32b", "qwen2.5-32b"),
    "of-an-organization": ("Qwen/Qwen3-32B", "qwen3-32b"),
}


@every_row(("name", "preset"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_name_of_another_catalogue_is_its_preset_with_a_note(name, preset):
    loaded = load(name)
    assert (loaded.name, loaded.source) == (preset, f"preset {preset}")
    assert loaded.notes[0].startswith(f"{name} is taken as the preset {preset}")


def test_a_format_in_a_name_is_the_form_that_weights_are_in():
    named = load("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M")
    assert (named.dtype, named.model.published_in.format) == ("q4_k_m", "q4_k_m")
    assert named.notes[1].startswith("the name says q4_k_m: ")
    # of a preset that is published in fp8
    assert load("deepseek-v3-bf16").model.published_in is None
    assert load("deepseek-ai/DeepSeek-V3-AWQ").model.published_in.format == "awq-int4"


def test_a_file_of_another_catalogues_name_is_a_mistyped_file():
    with pytest.raises(ArchError) as error:
        load("Qwen3-8B.yaml")
    assert error.value.problems[0].hint == "did you mean qwen3-8b?"
