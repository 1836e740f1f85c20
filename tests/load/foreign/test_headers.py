"""A checkpoint without a config: its headers are listed, and said to be no architecture."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from safetensors_files import ENTRIES, write


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "weights"
    path.mkdir()
    write(path / "model.safetensors", ENTRIES)
    return path


def sharded(folder):
    first = {name: entry for name, entry in ENTRIES.items() if name != "embedding"}
    (folder / "model.safetensors").unlink()
    write(folder / "model-00001-of-00002.safetensors", first)
    write(folder / "model-00002-of-00002.safetensors", {"embedding": ENTRIES["embedding"]})
    files = dict.fromkeys(first, "model-00001-of-00002.safetensors")
    index = {
        "metadata": {"total_size": 1800},
        "weight_map": {**files, "embedding": "model-00002-of-00002.safetensors"},
    }
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


TOTALS = {
    "stored_elements": 3 * 32 + 400 + 4,
    "bytes": 3 * 64 + 1600 + 8,
    "tensors": 5,
    "tensors_without_shape": 0,
    "by_dtype": {
        "BF16": {"elements": 96, "bytes": 192, "tensors": 3},
        "F16": {"elements": 4, "bytes": 8, "tensors": 1},
        "F32": {"elements": 400, "bytes": 1600, "tensors": 1},
    },
}


@pytest.mark.parametrize("form", ["file", "folder", "index", "folder-with-an-index"])
def test_elements_bytes_and_dtypes_are_those_of_the_headers(form, folder):
    model = {
        "file": lambda: folder / "model.safetensors",
        "folder": lambda: folder,
        "index": lambda: sharded(folder),
        "folder-with-an-index": lambda: sharded(folder).parent,
    }[form]()
    report = archcli.count_params(model)
    assert report.totals == TOTALS
    assert report.model == {"name": model.name, "source": str(model)}


def test_alike_tensors_are_one_row_and_the_largest_comes_first(folder):
    rows = archcli.count_params(folder).rows
    assert [(row["name"], row["times"], row["shape"], row["bytes"]) for row in rows] == [
        ("embedding", 1, [100, 4], 1600),
        ("layers.*.up.weight", 3, [8, 4], 192),
        ("scale", 1, [4], 8),
    ]


def test_an_index_by_itself_has_names_and_the_bytes_it_states(folder):
    index = sharded(folder)
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    report = archcli.count_params(index)
    assert (report.totals["tensors"], report.totals["tensors_without_shape"]) == (5, 5)
    assert "the index states 1,800 bytes in all." in report.notes


@pytest.mark.parametrize("beside", ["config.json", "params.json", "adapter_config.json"])
def test_what_describes_a_file_is_named(beside, folder):
    (folder / beside).write_text("{}")
    note = f"{beside} is beside it: give the folder for the architecture."
    assert note in archcli.count_params(folder / "model.safetensors").notes


DAMAGED = {
    "empty": b"",
    "short": b"\x10",
    "length-beyond-the-file": (1 << 40).to_bytes(8, "little") + b"{}",
    "no-json": (4).to_bytes(8, "little") + b"nope",
    "a-list": (2).to_bytes(8, "little") + b"[]",
    "no-shape": (17).to_bytes(8, "little") + b'{"a":{"dtype":1}}',
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_in_a_line(data, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(ArchError) as caught:
        archcli.count_params(path)
    assert len(caught.value.problems) == 1
    with pytest.raises(ArchError, match="no architecture"):
        load(str(path))
