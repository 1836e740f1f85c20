"""Files that are opened because they lie in a folder, or another names them: no pipe, no device, no loop."""

import json
import os
from threading import Event, Thread

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.checkpoint.checkpoint import read_checkpoint
from archcli.load.gguf.header import read as read_gguf
from archcli.load.hub.cache import Reference, cached
from archcli.load.source import load
from archcli.wings.doors.commands.mcp.server import result_of
from archcli.wings.serving.devices.model_files import cached_model_files, model_files

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
NO_FILE = "cannot be read: a pipe or a device, no file"

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")


def in_time(ask):
    """What a question returns or raises; fails where it waits for the writer of a pipe."""
    got = []

    def answer():
        try:
            got.append(ask())
        except (ArchError, OSError) as error:
            got.append(error)

    asked = Thread(target=answer, daemon=True)
    asked.start()
    asked.join(10)
    assert got, "it waits"
    return got[0]


def pipe(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def device(path):
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("irregular", [pipe, device])
def test_weights_beside_a_config(irregular, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    irregular(tmp_path / "x.safetensors")
    assert in_time(lambda: load(str(tmp_path))).notes[-1].endswith(f"not read: {NO_FILE}")


@pytest.mark.parametrize("irregular", [pipe, device])
def test_a_folder_of_weights_alone(irregular, tmp_path):
    irregular(tmp_path / "x.safetensors")
    assert in_time(lambda: read_checkpoint(str(tmp_path))).problems[0].what == NO_FILE


NAMED = {
    "a model": lambda path: load(str(path)),
    "a device": lambda path: archcli.devices(str(path)),
    "a profile": lambda path: archcli.plot(str(path), str(path.with_suffix(".svg"))),
    "a folder's config": lambda path: load(str(path.parent)),
}


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize(("irregular", "called"), [(pipe, "a named pipe"), (device, "a device")])
def test_a_file_that_never_ends_is_refused_at_once_where_it_is_named(kind, irregular, called, tmp_path):
    ends = {"a device": "mine.yaml", "a profile": "run.json"}.get(kind, "config.json")
    refused = in_time(lambda: NAMED[kind](irregular(tmp_path / ends)))
    wanted = "this is a folder without a config.json" if "folder" in kind else f"{called}, no file"
    assert refused.problems[0].what == wanted


def test_what_a_shell_hands_over_is_read():
    reading, writing = os.pipe()
    os.write(writing, json.dumps(CONFIG).encode())
    os.close(writing)
    assert in_time(lambda: load(f"/dev/fd/{reading}")).model.vocab_size == 100
    os.close(reading)


def test_an_assistant_is_answered(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(json.dumps(CONFIG))
    pipe(tmp_path / "m" / "x.safetensors")
    answer = in_time(lambda: result_of("params", {"model": "m"}, tmp_path, Event()))
    assert NO_FILE in answer.content[0].text


def test_gguf_files_of_a_folder(tmp_path):
    pipe(tmp_path / "a.gguf")
    assert [file.reason for file in in_time(lambda: model_files(tmp_path)).skipped] == [NO_FILE]
    assert isinstance(in_time(lambda: read_gguf(tmp_path / "a.gguf")), OSError)


def test_caches_of_programs(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    pipe(tmp_path / "OLLAMA_MODELS" / "manifests" / "registry" / "library" / "x" / "8b")
    pipe(tmp_path / "HF_HUB_CACHE" / "models--a--b" / "refs" / "main")
    assert in_time(cached_model_files) == ((), ())
    assert in_time(lambda: cached(Reference("a/b"))) is None


def folders(tmp_path, names):
    """Folders whose config.json is a Modelfile that names the next folder."""
    for name, named in names.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f"FROM {named}\n")


ADAPTER = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}
LOOPS = {
    "of itself": ({"a": "."}, "this file leads back to itself"),
    "of two": ({"a": "../b", "b": "../a"}, "this file leads back to itself"),
    "a chain": (
        {"a": "../b1", **{f"b{i}": f"../b{i + 1}" for i in range(1, 300)}},
        "more than 8 files, each of which names the next",
    ),
}


@pytest.mark.parametrize(("names", "what"), LOOPS.values(), ids=LOOPS)
def test_files_that_lead_to_each_other(names, what, tmp_path):
    folders(tmp_path, names)
    for model in ("a", "a/config.json"):
        with pytest.raises(ArchError, match=what):
            load(str(tmp_path / model))


def test_an_adapter_whose_base_leads_to_itself(tmp_path):
    folders(tmp_path, {"a": "."})
    (tmp_path / "adapter_config.json").write_text(
        json.dumps(ADAPTER | {"base_model_name_or_path": str(tmp_path / "a")})
    )
    with pytest.raises(ArchError, match="this file leads back to itself"):
        load(str(tmp_path / "adapter_config.json"))


def test_a_file_may_be_read_again(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "Modelfile").write_text("FROM .\n")
    assert load(str(tmp_path / "Modelfile")).model == load(str(tmp_path / "Modelfile")).model


@pytest.mark.parametrize(
    "stated", [lambda base: json.dumps(ADAPTER | {"base_model_name_or_path": base}), "FROM {}\n".format]
)
def test_an_assistant_does_not_learn_which_folders_there_are(stated, tmp_path):
    there, absent = tmp_path / "there", tmp_path / "not"
    there.mkdir()
    (there / "config.json").write_text(json.dumps(CONFIG))
    answers = [
        result_of("params", {"model": stated(str(folder))}, None, Event())
        .content[0]
        .text.replace(str(folder), "F")
        for folder in (there, absent)
    ]
    assert answers[0] == answers[1]
