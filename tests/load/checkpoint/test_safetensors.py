"""Headers of .safetensors.

What the library writes is read as it is, and no broken or hostile file is more than one clear error.
"""

import json

import pytest
import torch
from safetensors.torch import save_file

from archcli.errors import ArchError
from archcli.load.checkpoint.safetensors import BITS, MOST_HEADER, read_header, read_tensor
from table import every_row

TENSORS = {
    "a.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "b": torch.tensor(7, dtype=torch.int64),
    "empty": torch.empty(0, 4, dtype=torch.float16),
    "c.mask": torch.tensor([True, False]),
    "d": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "e": torch.tensor([1.5], dtype=torch.float8_e4m3fn),
}


def file_of(header, data=b"", length=None):
    """A file of this header and data, whatever they say of each other."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(shape=(2,), dtype="F32", place=(0, 8)):
    return {"w": {"dtype": dtype, "shape": list(shape), "data_offsets": list(place)}}


def test_what_the_library_writes_is_read(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(TENSORS, path, metadata={"format": "pt"})
    found = read_header(path)
    assert {name: stored.shape for name, stored in found.items()} == {
        name: tuple(tensor.shape) for name, tensor in TENSORS.items()
    }
    assert [found[name].dtype for name in TENSORS] == ["F32", "I64", "F16", "BOOL", "BF16", "F8_E4M3"]
    for name, tensor in TENSORS.items():
        assert bytes(read_tensor(found[name])) == bytes(
            tensor.contiguous().view(torch.uint8).flatten().tolist()
            if tensor.dim()
            else tensor.reshape(1).view(torch.uint8).tolist()
        )
    assert all(
        8 * (stored.end - stored.begin) == TENSORS[name].numel() * BITS[stored.dtype]
        for name, stored in found.items()
    )


BROKEN = {
    "empty": (b"", "not a safetensors file: it has 0 bytes"),
    "short": (b"\x02\x00", "not a safetensors file: it has 2 bytes"),
    "no-header": (file_of(b""), "not a safetensors file: it says that 0 bytes of header follow"),
    "beyond-the-end": (file_of({}, length=3), "not a safetensors file: it says that 3 bytes"),
    "beyond-reason": (
        file_of({}, length=2**64 - 1),
        "not a safetensors file: it says that 18,446,744,073,709,551,615 bytes",
    ),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "a pointer of git-lfs",
    ),
    "pickle": (b"PK\x03\x04" + 60 * b"\x00", "not a safetensors file"),
    "no-json": (file_of(b"{nothing"), "its JSON cannot be read"),
    "no-utf8": (file_of(b'{"\xff": 1}'), "its JSON cannot be read"),
    "list": (file_of([]), "its JSON is no mapping"),
    "deep": (file_of(b"[" * 100_000 + b"]" * 100_000), "its JSON is nested too deep"),
    "long-number": (file_of(b'{"w": ' + 10_000 * b"9" + b"}"), "its JSON cannot be read"),
    "twice": (file_of(b'{"w": 1, "w": 2}'), "a key comes twice"),
    "no-mapping": (file_of({"w": 1}), "tensor 'w' has no dtype, shape and data_offsets"),
    "no-shape": (file_of({"w": {"dtype": "F32", "data_offsets": [0, 8]}}), "tensor 'w' has no dtype, shape"),
    "text-in-shape": (file_of(entry(shape=("2",))), "tensor 'w' has no dtype, shape"),
    "true-in-shape": (file_of(entry(shape=(True,))), "tensor 'w' has no dtype, shape"),
    "fraction-in-shape": (file_of(entry(shape=(2.0,))), "tensor 'w' has no dtype, shape"),
    "negative-shape": (file_of(entry(shape=(-2,))), "tensor 'w' has no dtype, shape"),
    "huge-axis": (file_of(entry(shape=(2**63,))), "tensor 'w' has no dtype, shape"),
    "many-axes": (file_of(entry(shape=17 * (1,))), "tensor 'w' has no dtype, shape"),
    "three-offsets": (file_of(entry(place=(0, 8, 9))), "tensor 'w' has no dtype, shape"),
    "backwards": (
        file_of(entry(shape=(0,), place=(8, 0)), 8 * b"\0"),
        "tensor 'w' of F32 0 cannot lie in bytes 8 to 0",
    ),
    "too-wide": (file_of(entry(place=(0, 9)), 9 * b"\0"), "tensor 'w' of F32 2 cannot lie in bytes 0 to 9"),
    "overflow": (file_of(entry(shape=(2**62, 4))), "cannot lie in bytes 0 to 8"),
    "cut": (file_of(entry(), 7 * b"\0"), "the file is cut short: tensor 'w' ends 1 bytes after it"),
    "escapes": (file_of({"\x1b[31m\n": 1}), r"tensor '\x1b[31m\n' has no dtype"),
}  # fmt: skip


@every_row("name", BROKEN)
def test_a_broken_file_is_one_clear_error(name, tmp_path):
    data, said = BROKEN[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(ArchError) as problem:
        read_header(path)
    (told,) = problem.value.problems
    assert said in told.what
    assert told.path == str(path)
    assert told.what.isprintable()


def test_a_dtype_of_tomorrow_is_not_measured(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of(entry(dtype="F1", place=(0, 1)), b"\0"))
    assert read_header(path)["w"].shape == (2,)


def test_a_header_alone_has_names_and_shapes(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of(entry()))
    stored = read_header(path)["w"]
    assert (stored.dtype, stored.shape) == ("F32", (2,))
    with pytest.raises(ArchError, match="became shorter"):
        read_tensor(stored)


def test_a_header_as_long_as_is_allowed_is_not_taken_on_trust(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of(b"{}", length=MOST_HEADER))
    with pytest.raises(ArchError, match="25,000,000 bytes of header"):
        read_header(path)


def test_a_missing_file_and_one_that_shrinks_are_errors(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(ArchError, match="cannot be read"):
        read_header(path)
    path.write_bytes(file_of(entry(), 8 * b"\0"))
    stored = read_header(path)["w"]
    path.write_bytes(file_of(entry(), 7 * b"\0"))
    with pytest.raises(ArchError, match="became shorter"):
        read_tensor(stored)
    path.unlink()
    with pytest.raises(ArchError, match="cannot be read"):
        read_tensor(stored)
