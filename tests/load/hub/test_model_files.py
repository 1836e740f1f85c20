"""Model files below a folder and in caches: what is listed, how large, and why others are left out."""

import json

import pytest

from archcli.errors import ArchError
from archcli.load.gguf.header import read
from archcli.load.gguf.stored import tensor_bytes
from archcli.load.source import load
from archcli.wings.serving.devices import model_files as reader
from archcli.wings.serving.devices.model_files import ModelFiles, cached_model_files, model_files
from gguf_files import tiny
from gguf_files.file import gguf
from hub.cache import CONFIG, OLDER, SHA
from model_files_written import METADATA, TENSORS, write_folder, write_gguf, write_safetensors
from table import every_row


@pytest.fixture(autouse=True)
def bare_home(tmp_path, monkeypatch):
    """A home without caches."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setattr(reader, "OLLAMA_SERVICE", tmp_path / "service")
    return home


def found(files):
    return [(model.name, model.n_bytes) for model in files.models]


def reasons(files):
    return {skipped.path.name: skipped.reason for skipped in files.skipped}


def test_what_lies_below_a_folder_is_listed_by_size(tmp_path):
    top = tmp_path / "models"
    small = write_gguf(top / "a.gguf")
    large = write_gguf(top / "below" / "b.gguf", more=100)
    folder = write_folder(top / "tuned")
    write_gguf(top / ".hidden" / "c.gguf")
    (top / "notes.txt").write_text("no model")
    write_safetensors(top / "adapters" / "lora.safetensors")
    read = []
    files = model_files(top, read.append)
    assert found(files) == [("b", large), ("a", small), ("tuned", folder)]
    assert sorted(read) == sorted(model.path for model in files.models)
    assert files.models[0].path == top / "below" / "b.gguf"
    assert files.skipped == ()


def test_the_parts_of_a_split_file_are_one(tmp_path):
    sizes = [
        write_gguf(
            tmp_path / f"big-0000{i}-of-00002.gguf",
            metadata=METADATA | {"split.count": 2},
            tensors={f"blk.{i}.weight": (8, 32)},
            size=4 * 8 * 32,
        )
        for i in (1, 2)
    ]
    files = model_files(tmp_path)
    assert found(files) == [("big", sum(sizes))]
    assert files.models[0].path.name == "big-00001-of-00002.gguf"
    (tmp_path / "big-00001-of-00002.gguf").unlink()
    files = model_files(tmp_path)
    assert files.models == ()
    assert reasons(files) == {
        "big-00002-of-00002.gguf": "one of 2 parts of a model, of which 1 are not beside it"
    }


def test_damaged_files_are_left_out_with_the_reason(tmp_path):
    write_gguf(tmp_path / "cut.gguf", more=-1)
    (tmp_path / "header.gguf").write_bytes(gguf(METADATA, TENSORS)[:-3])
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "other.gguf").write_bytes(b"no such file, whatever its name says")
    write_gguf(tmp_path / "vocab.gguf", tensors={}, size=0)
    write_gguf(tmp_path / "lora.gguf", metadata={"general.type": "adapter"})
    write_gguf(tmp_path / "mmproj.gguf", metadata={"general.architecture": "clip"})
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round.gguf").symlink_to(tmp_path / "round.gguf")
    write_folder(tmp_path / "short", cut=1)
    write_folder(tmp_path / "part")
    (tmp_path / "part" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model.safetensors", "c": "model-00002-of-00002.safetensors"}})
    )
    files = model_files(tmp_path)
    assert files.models == ()
    assert reasons(files) == {
        "cut.gguf": "the file is cut short: 1 bytes are missing",
        "header.gguf": "the file ends within its header",
        "empty.gguf": "no GGUF file: it does not begin with GGUF",
        "other.gguf": "no GGUF file: it does not begin with GGUF",
        "vocab.gguf": "it holds no tensors",
        "lora.gguf": "an adapter, no model of its own",
        "mmproj.gguf": "a projector of images, no model of its own",
        "gone.gguf": "cannot be read: No such file or directory",
        "round.gguf": "cannot be read: Too many levels of symbolic links",
        "short": "the file is cut short: tensor 'b' ends 1 bytes after it",
        "part": "1 of 2 shards are not here: of their tensors the names alone are compared.",
    }


@every_row("name", ["missing", "file", "a\0b"])
def test_what_is_no_folder_is_a_line(name, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchError, match="no folder: ") as error:
        model_files(tmp_path / name)
    assert str(error.value).count("\n") == 0


def test_an_empty_folder_has_no_models(tmp_path):
    (tmp_path / "nothing").mkdir()
    assert model_files(tmp_path / "nothing") == ModelFiles()
    assert cached_model_files() == ModelFiles()


def in_hub(hub, repo, commit=SHA):
    return hub / f"models--{repo.replace('/', '--')}" / "snapshots" / commit


def test_the_hubs_cache_lists_each_file_once(bare_home):
    hub = bare_home / ".cache" / "huggingface" / "hub"
    blob = hub / "models--org--name-GGUF" / "blobs" / "0123abcd"
    size = write_gguf(blob)
    for commit in (SHA, OLDER):
        snapshot = in_hub(hub, "org/name-GGUF", commit)
        snapshot.mkdir(parents=True)
        (snapshot / "name-Q4_K_M.gguf").symlink_to(blob)
    folder = write_folder(in_hub(hub, "meta/tiny", SHA))
    (in_hub(hub, "meta/half") / "config.json").parent.mkdir(parents=True)
    (in_hub(hub, "meta/half") / "config.json").write_text(json.dumps(CONFIG))
    assert found(cached_model_files()) == [("org/name-GGUF name-Q4_K_M", size), ("meta/tiny", folder)]
    assert cached_model_files() == model_files(hub)


@every_row(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("LLAMA_CACHE", ""), ("XDG_CACHE_HOME", "llama.cpp")],
)
def test_a_cache_is_where_its_variable_says(variable, below, tmp_path, monkeypatch):
    size = write_gguf(tmp_path / variable / below / "model.gguf")
    with monkeypatch.context() as patched:
        patched.setenv(variable, str(tmp_path / variable))
        assert found(cached_model_files()) == [("model", size)]


def test_lm_studio_and_llama_cpp_are_looked_into(bare_home):
    size = write_gguf(bare_home / ".lmstudio" / "models" / "qwen" / "Qwen3-8B-GGUF" / "Qwen3-8B-Q4_K_M.gguf")
    more = write_gguf(bare_home / ".cache" / "llama.cpp" / "ggml-org_tiny_x.gguf", more=1)
    assert found(cached_model_files()) == [("ggml-org_tiny_x", more), ("Qwen3-8B-Q4_K_M", size)]


def manifest(top, name, tag, text):
    path = top / "manifests" / "registry.ollama.ai" / "library" / name / tag
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def layers(digest, kind="application/vnd.ollama.image.model"):
    return json.dumps({"schemaVersion": 2, "layers": [{"mediaType": kind, "digest": digest, "size": 1}]})


def test_ollamas_models_go_by_their_tags(bare_home, tmp_path, monkeypatch):
    top = bare_home / ".ollama" / "models"
    size = write_gguf(top / "blobs" / "sha256-ab12")
    manifest(top, "llama3.1", "8b", layers("sha256:ab12"))
    manifest(top, "llama3.1", "latest", layers("sha256:ab12"))
    manifest(top, "gone", "latest", layers("sha256:cd34"))
    files = cached_model_files()
    assert found(files) == [("llama3.1:8b", size)]
    assert reasons(files) == {"sha256-cd34": "cannot be read: No such file or directory"}
    more = write_gguf(tmp_path / "service" / "blobs" / "sha256-ef56", more=1)
    manifest(tmp_path / "service", "qwen3", "8b", layers("sha256:ef56"))
    assert found(cached_model_files()) == [("qwen3:8b", more), ("llama3.1:8b", size)]
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "other"))
    assert cached_model_files() == ModelFiles()


NO_MANIFESTS = (
    *("", "{", "[]", "1", '{"layers": 1}', '{"layers": [1]}', '{"layers": []}', '{"layers": [{}]}'),
    *("[" * 10_000, layers("../../../secret"), layers("sha256:ab", "application/vnd.ollama.image.license")),
)


@every_row("text", NO_MANIFESTS)
def test_what_is_no_manifest_of_ollamas_is_passed_over(text, bare_home):
    manifest(bare_home / ".ollama" / "models", "name", "tag", text)
    assert cached_model_files() == ModelFiles()


def test_a_listed_file_loads_by_its_path(bare_home):
    """Of Ollama's files it has no suffix."""
    top = bare_home / ".ollama" / "models"
    write_gguf(
        top / "blobs" / "sha256-ab12", metadata=tiny.LLAMA, tensors=tiny.TENSORS, size=4 * tiny.COUNTED
    )
    manifest(top, "tiny", "latest", layers("sha256:ab12"))
    (listed,) = cached_model_files().models
    assert load(str(listed.path)).model.vocab_size == 50


# bytes of a row of 256 weights: block structs of ggml-common.h
ROWS = {
    0: 1024,
    1: 512,
    2: 144,
    8: 272,
    10: 84,
    11: 110,
    12: 144,
    13: 176,
    14: 210,
    20: 144,
    23: 136,
    30: 512,
}
ROWS |= {16: 66, 17: 74, 18: 98, 19: 50, 21: 110, 22: 82, 29: 56, 34: 54, 35: 66, 39: 136}


@every_row("kind", ROWS)
def test_bytes_of_tensors_are_those_of_ggmls_blocks(kind, tmp_path):
    (tmp_path / "x").write_bytes(gguf(METADATA, {"a": (3, 2, 256), "b": (256,)}, types={"a": kind, "b": 0}))
    header = read(tmp_path / "x")
    assert tensor_bytes(header) == 3 * 2 * ROWS[kind] + 4 * 256
    assert header.n_bytes == (tmp_path / "x").stat().st_size
