"""Where a checkpoint is read from: a file, an index of shards, a folder, the hub.

What is said of everything else.
"""

import json
import sys

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import NotASafetensorsRepoError
from huggingface_hub.utils import SafetensorsFileMetadata, SafetensorsRepoMetadata, TensorInfo
from safetensors.torch import save_file

from archcli.errors import ArchError
from archcli.load.checkpoint.checkpoint import read_checkpoint

ONE, TWO = {"a.weight": torch.zeros(2, 3)}, {"b.weight": torch.zeros(4)}
SHAPES = {"a.weight": (2, 3), "b.weight": (4,)}
SHARDS = {"a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}


@pytest.fixture
def sharded(tmp_path):
    """A folder with an index of two shards."""
    for name, tensors in zip(SHARDS.values(), (ONE, TWO), strict=True):
        save_file(tensors, tmp_path / name)
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 40}, "weight_map": SHARDS})
    )
    return tmp_path


def index(folder, weight_map):
    (folder / "model.safetensors.index.json").write_text(json.dumps(weight_map))


def test_a_file_and_the_folder_it_is_in(tmp_path):
    save_file({**ONE, **TWO}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    for source in (tmp_path, tmp_path / "model.safetensors"):
        found = read_checkpoint(str(source))
        assert found.shapes == SHAPES
        assert found.config == {"model_type": "llama"}
        assert found.notes == ()


def test_shards_by_their_index_and_without_it(sharded):
    assert read_checkpoint(str(sharded)).shapes == SHAPES
    assert read_checkpoint(str(sharded / "model.safetensors.index.json")).shapes == SHAPES
    (sharded / "model.safetensors.index.json").unlink()
    assert read_checkpoint(str(sharded)).shapes == SHAPES


def test_a_shard_that_is_not_there_leaves_the_names(sharded):
    (sharded / SHARDS["b.weight"]).unlink()
    found = read_checkpoint(str(sharded))
    assert found.shapes == {"a.weight": (2, 3), "b.weight": None}
    assert found.notes == ("1 of 2 shards are not here: of their tensors the names alone are compared.",)


def test_model_safetensors_is_preferred_to_others_beside_it(tmp_path):
    save_file(ONE, tmp_path / "model.safetensors")
    save_file(ONE, tmp_path / "consolidated.safetensors")
    assert read_checkpoint(str(tmp_path)).shapes == {"a.weight": (2, 3)}


@pytest.mark.parametrize("file", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", ""])
def test_an_index_names_files_beside_it_alone(tmp_path, file):
    index(tmp_path, {"weight_map": {"a.weight": file}})
    with pytest.raises(ArchError, match=r"no \.safetensors beside it"):
        read_checkpoint(str(tmp_path))


@pytest.mark.parametrize("data", [{}, {"weight_map": []}, {"weight_map": {"a": 1}}], ids=str)
def test_an_index_without_a_map_is_none(tmp_path, data):
    index(tmp_path, data)
    with pytest.raises(ArchError, match="weight_map is missing"):
        read_checkpoint(str(tmp_path))


def test_an_index_that_lies_is_told(sharded):
    index(sharded, {"weight_map": {**SHARDS, "c.weight": SHARDS["a.weight"]}})
    with pytest.raises(ArchError, match=r"does not hold 'c\.weight'"):
        read_checkpoint(str(sharded))


COPIES = {
    "fp16": ({"m.fp16": {"a": torch.zeros(2).half()}, "m.fp32": {"a": torch.zeros(2)}}, "m.fp32.safetensors"),
    "part": ({"a": {"a": torch.zeros(2)}, "b": {"a": torch.zeros(2), "b": torch.zeros(3)}}, "a.safetensors"),
    "shards": (
        {
            "x": {"a": torch.zeros(2), "b": torch.zeros(3)},
            "y-00001-of-00002": {"a": torch.zeros(2)},
            "y-00002-of-00002": {"b": torch.zeros(3)},
        },
        "y-….safetensors",
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_in_the_same_folder_is_left_out_and_noted(tmp_path, name):
    files, left_out = COPIES[name]
    for stem, tensors in files.items():
        save_file(tensors, tmp_path / f"{stem}.safetensors")
    checkpoint = read_checkpoint(str(tmp_path))
    whole = {key: tuple(tensor.shape) for tensors in files.values() for key, tensor in tensors.items()}
    assert checkpoint.shapes == whole
    [note] = checkpoint.notes
    assert note.startswith(f"{left_out} is not read: ")
    assert left_out not in {entry.path.name for entry in checkpoint.tensors.values()}


@pytest.mark.parametrize(
    "other", [{"a.weight": torch.zeros(3, 3)}, {**ONE, **TWO}], ids=["shapes", "overlapping"]
)
def test_files_that_contradict_each_other_are_refused(tmp_path, other):
    for name, tensors in {"x": {**ONE, "c.weight": torch.zeros(1)}, "y": other}.items():
        save_file(tensors, tmp_path / f"{name}.safetensors")
    with pytest.raises(ArchError, match=r"'a\.weight' is in two files"):
        read_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "without .safetensors"),
        ("pytorch_model.bin", "pickles run code"),
        ("model.gguf", "ends in .safetensors"),
    ],
)
def test_what_is_no_safetensors_is_refused(tmp_path, name, said):
    (tmp_path / (name or "other.txt")).write_bytes(b"x")
    with pytest.raises(ArchError, match=said):
        read_checkpoint(str(tmp_path / name))


@pytest.mark.parametrize("source", ["nothing", "no/such/folder", "a.safetensors", 300 * "x", "a\0b", ""])
def test_what_is_not_there_is_told(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source == "":
        source = "./missing"
    with pytest.raises(ArchError, match="no file or folder"):
        read_checkpoint(source)


# the hub


def metadata(shapes):
    files = {
        name: SafetensorsFileMetadata({}, {key: TensorInfo("BF16", list(shapes[key]), (0, 0))})
        for key, name in SHARDS.items()
    }
    return SafetensorsRepoMetadata({}, True, SHARDS, files)


@pytest.fixture
def online(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("org/name-1.5b", ("org/name-1.5b", None)),
        ("org/name@refs/pr/1", ("org/name", "refs/pr/1")),
        ("hf://org/name", ("org/name", None)),
    ],
)
def test_a_repository_tells_its_headers(source, asked, online, monkeypatch):
    calls = []
    monkeypatch.setattr(
        huggingface_hub,
        "get_safetensors_metadata",
        lambda name, revision: calls.append((name, revision)) or metadata(SHAPES),
    )
    assert read_checkpoint(source).shapes == SHAPES
    assert calls == [asked]


def test_offline_is_told_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # not even imported
    with pytest.raises(ArchError, match="HF_HUB_OFFLINE is set"):
        read_checkpoint("org/name")


def test_a_missing_client_is_told(online, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ArchError, match="pip install huggingface_hub"):
        read_checkpoint("org/name")


@pytest.mark.parametrize(
    "error",
    [NotASafetensorsRepoError("no model.safetensors there"), ConnectionError("no way\nout")],
    ids=["other", "no-network"],
)
def test_what_the_hub_says_is_one_line(error, online, monkeypatch):
    def fail(name, revision):
        raise error

    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", fail)
    with pytest.raises(ArchError) as problem:
        read_checkpoint("org/name")
    (told,) = problem.value.problems
    assert told.what == f"no folder 'org/name', and the hub cannot tell: {str(error).splitlines()[0]}"


def test_a_header_of_the_hub_is_held_to_the_same_rules(online, monkeypatch):
    broken = metadata({**SHAPES, "b.weight": [-4]})
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", lambda name, revision: broken)
    with pytest.raises(ArchError, match=r"tensor 'b\.weight' has no shape that can be read"):
        read_checkpoint("org/name")
