"""A checkpoint without a config: its headers are listed, and said to be no architecture."""

import json

import pytest

import archcli
from archcli.cli import main
from archcli.errors import ArchError
from archcli.load.source import load

ENTRIES = {
    **{f"layers.{i}.up.weight": ("BF16", [8, 4]) for i in range(3)},
    "embedding": ("F32", [100, 4]),
    "scale": ("F16", [4]),
}
WIDTHS = {"BF16": 2, "F32": 4, "F16": 2}


def write(path, entries):
    """A safetensors file whose data are zeros: https://huggingface.co/docs/safetensors."""
    header, end = {}, 0
    for name, (dtype, shape) in entries.items():
        size = WIDTHS[dtype]
        for axis in shape:
            size *= axis
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


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
    files = {name: "model-00001-of-00002.safetensors" for name in first}
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


@pytest.mark.parametrize("command", ["flops", "kvcache", "memory", "show", "check", "explain"])
def test_other_commands_say_that_it_is_no_architecture(command, folder, capsys):
    for model in (folder, folder / "model.safetensors"):
        assert main([command, str(model)]) == 2
        error = capsys.readouterr().err
        assert "names and shapes of stored tensors are no architecture" in error
        assert "`archcli params` lists them" in error


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--dtype", "fp32"], "--dtype"), (["--against", "x"], "--against"), (["--set", "a=1"], "--set")],
)
def test_options_about_an_architecture_are_refused(options, named, folder, capsys):
    assert main(["params", str(folder), *options]) == 2
    assert f"{named} is for an architecture" in capsys.readouterr().err


def test_the_printed_report_says_that_it_is_no_architecture(folder, capsys):
    assert main(["params", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "Stored tensors, no architecture" in printed.out
    assert "no config.json is beside it" in printed.out + printed.err


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
