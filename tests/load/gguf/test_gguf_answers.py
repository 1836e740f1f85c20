"""GGUF files that are damaged, hostile or of another kind: each has its answer, and none is a traceback."""

import contextlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.load.source import load
from gguf_files.file import BOOL, STRING, U64, entry, gguf, scalar, tensor, text
from gguf_files.tiny import ARCH, LLAMA, TENSORS, WHOLE
from table import every_row


def metadata_of(kind, value):
    """A file with one key, of this type and these bytes."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("key") + struct.pack("<I", kind) + value


def tensors_of(*entries):
    return b"GGUF" + struct.pack("<IQQ", 3, len(entries), 0) + b"".join(entries)


SHORT = "the file ends within its header; an unfinished download?"
DAMAGED = "; the header is damaged, or of another program's making"

# id: (the bytes, the answer)
HOSTILE = {
    "empty": (b"", "no GGUF file: it does not begin with GGUF; "),
    "magic": (b"GGUX" + WHOLE[4:], "no GGUF file: it does not begin with GGUF; "),
    "magic-alone": (b"GGUF", SHORT),
    "ggjt": (b"tjgg\3\0\0\0", "an old ggjt file, from before GGUF; convert the model anew"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\n",
        "a pointer of Git LFS, not the file itself; `git lfs pull` fetches it",
    ),
    "version-1": (
        WHOLE[:4] + struct.pack("<I", 1) + WHOLE[8:],
        "GGUF version 1 is not read; versions 2 and 3 are",
    ),
    "version-9": (
        WHOLE[:4] + struct.pack("<I", 9) + WHOLE[8:],
        "GGUF version 9 is not read; versions 2 and 3 are",
    ),
    "big-endian": (WHOLE[:4] + struct.pack(">I", 3) + WHOLE[8:], "a big-endian GGUF file is not read; "),
    "counts-cut": (WHOLE[:20], SHORT),
    "many-keys": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60),
        f"{1 << 60:,} metadata keys are beyond reason",
    ),
    "many-tensors": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), f"{1 << 60:,} tensors are beyond reason"),
    "more-keys-than-room": (b"GGUF" + struct.pack("<IQQ", 3, 0, 100), SHORT),
    "long-key": (
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40) + b" " * 40,
        f"a metadata key of {1 << 40:,} bytes is beyond reason",
    ),
    "long-text": (metadata_of(STRING, struct.pack("<Q", 1 << 63)), SHORT),
    "key-not-utf-8": (gguf([(b"\xff\xfe", 1)], {}), "a metadata key is not UTF-8" + DAMAGED),
    "text-not-utf-8": (metadata_of(STRING, text(b"\xff")), "key is not UTF-8" + DAMAGED),
    "type-unknown": (metadata_of(13, b"\0" * 8), "metadata key 'key' is of the unknown type 13"),
    "type-in-array-unknown": (
        metadata_of(9, struct.pack("<IQ", 77, 1) + b"\0" * 8),
        "metadata key 'key' is of the unknown type 77",
    ),
    "flag-of-two": (metadata_of(BOOL, b"\2"), "metadata key 'key' is a truth value of 2"),
    "nested": (
        metadata_of(9, struct.pack("<IQ", 9, 1 << 62)),
        "metadata key 'key' is an array of arrays, which is not read",
    ),
    "long-array": (metadata_of(9, struct.pack("<IQ", U64, 1 << 63)), SHORT),
    "long-array-of-texts": (metadata_of(9, struct.pack("<IQ", STRING, 1 << 63)), SHORT),
    "text-in-array-too-long": (metadata_of(9, struct.pack("<IQQQ", STRING, 2, 1 << 63, 0)), SHORT),
    "last-text-in-array-too-long": (metadata_of(9, struct.pack("<IQQ", STRING, 1, 9) + b"abc"), SHORT),
    "too-many-texts": (
        metadata_of(9, struct.pack("<IQ", STRING, 5 << 20) + b"\0" * (40 << 20)),
        "has 5,242,880 strings, which is beyond reason",
    ),
    "key-twice": (gguf([("a", 1), ("a", 2)], {}), "metadata key 'a' occurs twice"),
    "tensor-twice": (tensors_of(tensor("t", (1,)), tensor("t", (2,))), "tensor 't' occurs twice"),
    "five-axes": (tensors_of(tensor("t", (1, 1, 1, 1, 1))), "tensor 't' has 5 axes, more than 4"),
    "axis-of-zero": (tensors_of(tensor("t", (3, 0))), "tensor 't' has the impossible shape [3, 0]"),
    "beyond-reason": (
        tensors_of(tensor("t", (1 << 40, 1 << 40))),
        f"tensor 't' has the impossible shape [{1 << 40}, {1 << 40}]",
    ),
    "control-characters": (
        gguf([("a\x1b[31m", 1), ("a\x1b[31m", 1)], {}),
        "metadata key 'a\\x1b[31m' occurs twice",
    ),
}


@every_row(("data", "said"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_header_is_answered(answer_of, data, said):
    assert said in answer_of(data)


# id: (what is put over LLAMA and TENSORS, None to take away; the answer)
WRONG = {
    "no-architecture": (
        {ARCH: None},
        {},
        "metadata key 'general.architecture' is missing; it names the family, such as llama",
    ),
    "architecture-of-number": (
        {ARCH: 7},
        {},
        "metadata key 'general.architecture' is missing; it names the family, such as llama",
    ),
    "unknown": (
        {ARCH: "qwen2v"},
        {},
        "architecture 'qwen2v' is not supported; nearest known: qwen2vl, qwen2, qwen",
    ),
    "adapter": (
        {"general.type": "adapter"},
        {},
        "the file is of the type 'adapter', no model; give the model's own file",
    ),
    "key-missing": (
        {"llama.block_count": None},
        {},
        "metadata key 'llama.block_count' is missing; nothing else says it",
    ),
    "not-a-number": (
        {"llama.block_count": "three"},
        {},
        "num_hidden_layers must be a whole number above 0, not 'three' (llama.block_count)",
    ),
    "zero": (
        {"llama.embedding_length": 0},
        {},
        "hidden_size must be a whole number above 0, not 0 (llama.embedding_length)",
    ),
    "heads": (
        {"llama.attention.head_count_kv": 3},
        {},
        "n_kv_heads 3 does not divide n_heads 4 (llama.attention.head_count_kv); use 2 or 4",
    ),
    "layers-differ": (
        {"llama.attention.head_count_kv": [2, 1, 2]},
        {},
        "llama.attention.head_count_kv differs from layer to layer",
    ),
    "values-wider": (
        {"llama.attention.key_length": 4, "llama.attention.value_length": 8},
        {},
        "key_length 4 with value_length 8 is not supported for llama",
    ),
    "partial": (
        {"llama.rope.dimension_count": 2},
        {},
        "llama.rope.dimension_count 2 with head_dim 4 is not supported",
    ),
    "scaling": (
        {"llama.rope.scaling.type": "odd", "llama.rope.scaling.factor": 2.0},
        {},
        "rope scaling 'odd' is not supported; known: none",
    ),
    "not-causal": (
        {"llama.attention.causal": False},
        {},
        "attention that is not causal is not supported for llama",
    ),
    "shape": (
        {},
        {"blk.1.ffn_up.weight": (25, 16)},
        "blk.1.ffn_up.weight [25, 16] should be [24, 16]; a variant that",
    ),
    "missing": ({}, {"blk.2.ffn_norm.weight": None}, "no tensor for layers.2.ffn_norm.weight [16]"),
    "strange": (
        {},
        {"blk.0.adapter.weight": (3, 4)},
        "blk.0.adapter.weight [3, 4] is not among the weights of the architecture",
    ),
    "bias": (
        {},
        {"blk.0.attn_q.bias": (16,)},
        "blk.0.attn_q.bias [16] is not among the weights of the architecture",
    ),
    "fused": (
        {},
        {"blk.0.attn_qkv.weight": (32, 16)},
        "blk.0.attn_qkv.weight [32, 16] is not among the weights of the architecture",
    ),
    "layer-number": (
        {},
        {f"blk.{900 * '9'}.attn_q.weight": (1,)},
        "is not among the weights of the architecture",
    ),
}


@every_row(("metadata", "tensors", "said"), WRONG.values(), ids=WRONG)
def test_what_makes_no_model_is_answered(answer_of, metadata, tensors, said):
    stated = {key: value for key, value in {**LLAMA, **metadata}.items() if value is not None}
    listed = {name: shape for name, shape in {**TENSORS, **tensors}.items() if shape is not None}
    assert said in answer_of(stated, listed)


@every_row("key", [key for key in LLAMA if key != ARCH])
@every_row("value", ["text", True, -1.5, 0, 1 << 31, float("nan"), [], ["a", "b"], [1, 2]], ids=repr)
def test_no_value_of_any_key_is_a_traceback(asked, key, value):
    with contextlib.suppress(ArchError):
        asked({**LLAMA, key: value}, {})


@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9), st.booleans())
def test_a_damaged_file_is_answered_or_read(tmp_path_factory, at, put, cut):
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(WHOLE[:at] if cut else WHOLE[:at] + put + WHOLE[at + len(put) :])
    with contextlib.suppress(ArchError):
        loaded = load(str(path))
        assert loaded.notes
        assert not cut


def test_the_writer_writes_what_the_specification_says():
    assert gguf({"a": 7}, {"t": (2, 3)}) == bytes.fromhex(
        "47475546 03000000 0100000000000000 0100000000000000"
        "0100000000000000 61 04000000 07000000"
        "0100000000000000 74 02000000 0300000000000000 0200000000000000 01000000 0000000000000000"
    )
    assert entry("k", STRING, "v") == text("k") + b"\x08\0\0\0" + scalar(STRING, "v")


def test_a_part_that_cannot_be_read_is_answered(answer_of, tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("archcli.load.gguf.header.mmap.mmap", refuse)
    assert answer_of(WHOLE) == "f.gguf: cannot be read: Permission denied"
