"""Headers made to take memory: what is kept of one stays small, and what is too much is refused at once."""

import struct
import time
import tracemalloc
from contextlib import contextmanager

import pytest

from archcli.errors import ArchError
from archcli.load.checkpoint.checkpoint import read_checkpoint
from archcli.load.checkpoint.safetensors import MOST_TENSORS, MOST_VALUES, read_header
from archcli.load.gguf.header import LONGEST_TEXT, MOST_LISTED, Skipped, read
from archcli.load.source import load
from archcli.measure.params import count_params
from gguf_files.file import ARRAY, U32, gguf
from gguf_files.tiny import COUNTED, LLAMA, TENSORS

MIB = 1 << 20


@contextmanager
def limited(most_bytes, most_s=2.0):
    """Assert that the block allocates and computes no more than this."""
    start = time.process_time()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= most_bytes
        assert time.process_time() - start < most_s
    finally:
        tracemalloc.stop()


def arrays(count, length, key="x.{}"):
    """Metadata of `count` arrays, with every element a number of its own."""
    data = struct.pack(f"<IQ{length}I", U32, length, *range(1000, 1000 + length))
    return {key.format(i): (ARRAY, data) for i in range(count)}


@pytest.mark.long
def test_of_many_arrays_in_a_gguf_a_few_are_kept(tmp_path):
    path = tmp_path / "f.gguf"
    path.write_bytes(gguf({**LLAMA, **arrays(500, 4_096)}, TENSORS))
    with limited(16 * MIB):
        header = read(path)
    kept = [len(value) for value in header.metadata.values() if isinstance(value, list)]
    assert sum(kept) == MOST_LISTED
    assert sum(isinstance(value, Skipped) for value in header.metadata.values()) == 500 - len(kept)
    assert count_params(load(str(path)).model).totals["params"] == COUNTED


def test_of_long_texts_and_names_in_a_gguf_none_is_kept(tmp_path):
    path = tmp_path / "f.gguf"
    path.write_bytes(gguf({f"x.{i}": "long" * LONGEST_TEXT for i in range(4_000)}, {}))
    with limited(8 * MIB):
        assert set(read(path).metadata.values()) == {Skipped(4 * LONGEST_TEXT)}
    path.write_bytes(gguf({"k" * 2_000: 1}, {}))
    with limited(MIB), pytest.raises(ArchError, match="a metadata key of 2,000 bytes is beyond reason"):
        read(path)


def test_parts_of_a_gguf_model_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr("archcli.load.gguf.header.MOST_TENSORS", 5)
    for i in (1, 2, 3):
        part = gguf({"split.count": 3}, {f"{i}.{j}": (1,) for j in range(2)})
        (tmp_path / f"m-{i:05}-of-00003.gguf").write_bytes(part)
    with pytest.raises(ArchError, match="the parts of the model hold more than 5 tensors"):
        load(str(tmp_path / "m-00001-of-00003.gguf"))


HEADERS = {
    "tensors": b'"%d":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
    "numbers": b'"%d":1',
    "mappings": b'"%d":{}',
    "lists": b'"%d":[]',
}


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("name", HEADERS)
def test_a_safetensors_header_of_too_many_values_is_refused_unparsed(tmp_path, name):
    entry = HEADERS[name]
    header = (
        b"{"
        + b",".join(
            entry % i for i in range(MOST_VALUES // entry.count(b",") if b"," in entry else MOST_VALUES + 2)
        )
        + b"}"
    )
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with limited(2 * len(header)), pytest.raises(ArchError, match="more than 262,144 values"):
        read_header(path)


def test_an_index_of_too_many_values_is_refused_unparsed(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(b'{"weight_map":{' + b",".join(b'"%d":""' % i for i in range(MOST_VALUES + 2)) + b"}}")
    with limited(64 * MIB), pytest.raises(ArchError, match="more than 262,144 values"):
        read_checkpoint(str(path))


def test_shards_are_bounded_together(tmp_path, monkeypatch):
    assert MOST_TENSORS > 200_000
    monkeypatch.setattr("archcli.load.checkpoint.safetensors.MOST_TENSORS", 5)
    for i in range(3):
        header = b"{" + b",".join(HEADERS["tensors"] % (2 * i + j) for j in range(2)) + b"}"
        path = tmp_path / f"m-{i:05}-of-00003.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ArchError, match="more than 5 tensors"):
        read_checkpoint(str(tmp_path))
