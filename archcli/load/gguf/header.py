"""The header of a GGUF file, whole or split: its metadata, and names, shapes and types of its tensors.

Layout (docs/gguf.md of github.com/ggml-org/ggml, versions 2 and 3, little-endian): magic, version, number
of tensors, number of metadata keys; a key, type and value of each; a name, shape, type and offset of each
tensor.

The file is mapped, so that only pages of the header are touched. What is kept is bounded in all: of a long
array, such as a vocabulary, or text, such as a chat template, the length alone. Every count and length is
compared with what is left of the file before it is used.
"""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from archcli.errors import ArchError, Problem, quote, shorten
from archcli.load.yaml.text import open_regular

MAGIC = b"GGUF"
BEFORE = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt", b"algg": "ggla", b"GGML": "ggml"}
"""Magics of the formats that GGUF replaced in August 2023."""

# version 1, of August 2023 alone, has lengths of 32 bits
VERSIONS = (2, 3)
# the index is the number of the type in `enum gguf_type` of ggml's gguf.h; 8 and 9 are text and arrays
SCALARS = tuple(Struct(f"<{code}") for code in "BbHhIif?")
WIDE = {10: Struct("<Q"), 11: Struct("<q"), 12: Struct("<d")}
BY_TYPE: dict[int, Struct] = {**dict(enumerate(SCALARS)), **WIDE}
BOOL, STRING, ARRAY = 7, 8, 9
U32, U64, PAIR = Struct("<I"), Struct("<Q"), Struct("<IQ")

MOST_KEYS, MOST_TENSORS, MOST_STRINGS = 1 << 14, 1 << 16, 1 << 21
"""Keys, tensors, and strings of all arrays: four to a thousand times what the largest known files hold."""

LONGEST_NAME, LONGEST_TEXT, LONGEST_LIST = 1 << 10, 1 << 10, 1 << 12
"""Bytes of a name, at most, and of a text, elements of a list: of longer ones the length is kept."""

MOST_LISTED = 1 << 18
"""Elements of all lists that are kept."""

# GGML_MAX_DIMS of ggml.h; the sizes' product has to stay an int that is quick to compute
MOST_AXES, LARGEST = 4, 1 << 60

T = TypeVar("T")


class Skipped(NamedTuple):
    """A skipped value: its number of elements, or of bytes of text."""

    length: int


class TensorInfo(NamedTuple):
    """A tensor's shape, outermost axis first as in torch, and the number of its GGML type."""

    shape: tuple[int, ...]
    type: int


class Header(NamedTuple):
    """The header of a GGUF file: metadata by key, tensors by name, and its bytes (of all parts)."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    n_bytes: int = 0


def read(path: Path) -> Header:
    """Read the header of a file; ArchError where it is not GGUF, truncated or inconsistent."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        _refuse_others(file.read(8), path)
        # an empty file cannot be mapped: `_refuse_others` has refused it
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _HeaderReader(data, size, path).header()


def _refuse_others(start: bytes, path: Path) -> None:
    """Raise ArchError unless the first eight bytes are those of GGUF version 2 or 3."""

    def refuse(what: str, hint: str) -> ArchError:
        return ArchError(Problem(what, hint, path=str(path)))

    magic, version = start[:4], int.from_bytes(start[4:8], "little")
    if magic in BEFORE:
        raise refuse(f"an old {BEFORE[magic]} file, from before GGUF", "convert the model anew")
    if start == b"version ":
        raise refuse("a pointer of Git LFS, not the file itself", "`git lfs pull` fetches it")
    if magic != MAGIC:
        raise refuse(
            "no GGUF file: it does not begin with GGUF", "a YAML file or a config.json has another suffix"
        )
    if len(start) < 8:  # noqa: PLR2004
        raise refuse("the file ends within its header", "an unfinished download?")
    # the magic is the same in both byte orders, so the version alone tells them apart
    if version not in VERSIONS and int.from_bytes(start[4:8], "big") in VERSIONS:
        raise refuse("a big-endian GGUF file is not read", "gguf_convert_endian.py of llama.cpp turns it")
    if version not in VERSIONS:
        raise refuse(f"GGUF version {version} is not read", "versions 2 and 3 are; convert the model anew")


class _HeaderReader:
    """A bounds-checked reader of the header; `at` is the offset of the next byte."""

    def __init__(self, data: mmap.mmap, size: int, path: Path) -> None:
        self.data, self.size, self.path = data, size, path
        # behind the magic and the version, which `_refuse_others` has read
        self.at: int = 8
        self.strings = self.listed = 0

    def header(self) -> Header:
        # at least a name's length (8), the number of axes (4), a type (4) and an offset (8)
        tensors = self.count("tensors", MOST_TENSORS, 24)
        # at least a key's length (8), a type (4) and a value of one byte
        keys = self.count("metadata keys", MOST_KEYS, 13)
        return Header(self.metadata(keys), self.tensors(tensors), self.at)

    def metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = self.name("a metadata key")
            if key in metadata:
                raise self.error(f"metadata key {quote(key)} occurs twice")
            metadata[key] = self.value(key, self.number(U32))
        return metadata

    def tensors(self, count: int) -> dict[str, TensorInfo]:
        tensors: dict[str, TensorInfo] = {}
        for _ in range(count):
            name = self.name("a tensor's name")
            if name in tensors:
                raise self.error(f"tensor {quote(name)} occurs twice")
            axes = self.number(U32)
            if axes > MOST_AXES:
                raise self.error(f"tensor {quote(name)} has {axes} axes, more than {MOST_AXES}")
            # GGML lists the axis that varies fastest first
            shape = tuple(self.number(U64) for _ in range(axes))[::-1]
            # sizes are u64 of a stranger: their product is bounded, and so is what is computed of it
            size = 1
            for length in shape:
                size *= length
            if not 0 < size < LARGEST:
                raise self.error(f"tensor {quote(name)} has the impossible shape {list(shape)}")
            tensors[name] = TensorInfo(shape, self.unpacked(PAIR)[0])
        return tensors

    def value(self, key: str, kind: int) -> Any:
        """Read a value of a type; a long text or list is skipped, and its length returned."""
        if kind == STRING:
            length = self.number(U64)
            start = self.advance(length, 1)
            return self.text(start, key) if length <= LONGEST_TEXT else Skipped(length)
        if kind == ARRAY:
            return self.array(key)
        if kind == BOOL:
            return self.flag(key)
        return self.number(self.scalar(kind, key))

    def array(self, key: str) -> Any:
        kind, length = self.number(U32), self.number(U64)
        if kind == ARRAY:
            raise self.error(f"metadata key {quote(key)} is an array of arrays, which is not read")
        if kind == STRING:
            return self.skip_strings(key, length)
        scalar = self.scalar(kind, key)
        start = self.advance(length, scalar.size)
        if length > min(LONGEST_LIST, MOST_LISTED - self.listed):
            return Skipped(length)
        self.listed += length
        return [scalar.unpack_from(self.data, start + i * scalar.size)[0] for i in range(length)]

    def skip_strings(self, key: str, length: int) -> Skipped:
        """Skip this many strings without decoding them."""
        self.strings += length
        # every string has a length of eight bytes: a forged count is refused before the loop runs
        if length > (self.size - self.at) // U64.size:
            raise self.short()
        if self.strings > MOST_STRINGS:
            raise self.error(f"metadata key {quote(key)} has {length:,} strings, which is beyond reason")
        # local names, as the loop runs once for each token of a vocabulary
        data, at, size, unpack, step = self.data, self.at, self.size, U64.unpack_from, U64.size
        for _ in range(length):
            if at + step > size:
                raise self.short()
            at += step + unpack(data, at)[0]
        if at > size:
            raise self.short()
        self.at = at
        return Skipped(length)

    def flag(self, key: str) -> bool:
        value = self.data[self.advance(1, 1)]
        # docs/gguf.md of ggml: 0 is false, 1 is true, anything else is invalid
        if value > 1:
            raise self.error(f"metadata key {quote(key)} is a truth value of {value}")
        return value == 1

    def scalar(self, kind: int, key: str) -> Struct:
        if kind not in BY_TYPE:
            raise self.error(f"metadata key {quote(key)} is of the unknown type {kind}")
        return BY_TYPE[kind]

    def name(self, what: str) -> str:
        length = self.number(U64)
        if length > LONGEST_NAME:
            raise self.error(f"{what} of {length:,} bytes is beyond reason")
        return self.text(self.advance(length, 1), what)

    def text(self, start: int, what: str) -> str:
        try:
            return self.data[start : self.at].decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"{shorten(what)} is not UTF-8") from None

    def count(self, what: str, most: int, least_bytes: int) -> int:
        """Read a count of items; ArchError for more than fit into the rest of the file."""
        count: int = self.number(U64)
        if count > most:
            raise self.error(f"{count:,} {what} are beyond reason")
        if count * least_bytes > self.size - self.at:
            raise self.short()
        return count

    def number(self, kind: Struct) -> Any:
        return self.unpacked(kind)[0]

    def unpacked(self, kind: Struct) -> tuple[Any, ...]:
        return kind.unpack_from(self.data, self.advance(1, kind.size))

    def advance(self, length: int, width: int) -> int:
        """Skip this many elements of a width in bytes; returns the offset of the first."""
        start = self.at
        if length * width > self.size - start:
            raise self.short()
        self.at = start + length * width
        return start

    def short(self) -> ArchError:
        return self.error("the file ends within its header", "an unfinished download?")

    def error(self, what: str, hint: str = "") -> ArchError:
        return ArchError(
            Problem(
                what, hint or "the header is damaged, or of another program's making", path=str(self.path)
            )
        )


SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})")


def read_whole(path: Path) -> Header:
    """The header of a GGUF file; the parts of a split model, all in one folder, are merged."""
    header = read(path)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    match = SHARD.fullmatch(path.stem)
    if match is None or int(match["count"]) != count:
        what = f"one of {count} parts of a model, under a name that does not say which"
        raise ArchError(Problem(what, "NAME-00001-of-…", path=str(path)))
    files = parts_of(path)
    if absent := [file.name for file in files if not file.is_file()]:
        what = f"one of {count} parts of a model, of which {len(absent)} are not beside it"
        raise ArchError(Problem(what, f"the first that is missing is {absent[0]}", path=str(path)))
    metadata, tensors, n_bytes = header.metadata, dict(header.tensors), 0
    for file in files:
        part = read(file)
        n_bytes += part.n_bytes
        # gguf-split of llama.cpp writes the model's metadata into the first part alone
        if file == files[0]:
            metadata = {**metadata, **part.metadata}
        tensors |= part.tensors
        if len(tensors) > MOST_TENSORS:
            what = f"the parts of the model hold more than {MOST_TENSORS:,} tensors, which is beyond reason"
            raise ArchError(Problem(what, "are they parts of one model?", path=str(path)))
    return Header(metadata, tensors, n_bytes)


def parts_of(path: Path) -> list[Path]:
    """The files of a model by one of them: itself, or all parts that its name counts, here or not."""
    match = SHARD.fullmatch(path.stem)
    if match is None:
        return [path]
    count = int(match["count"])
    return [path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]


def model_name(path: Path) -> str:
    """The file's name without suffix and part number."""
    match = SHARD.fullmatch(path.stem)
    return match["stem"] if match else path.stem
