"""The header of a .safetensors file, and the bytes of a tensor.

Format (https://huggingface.co/docs/safetensors/index#format): eight bytes, the header's length,
little-endian; the header, a JSON mapping of every tensor's name to its dtype, shape and place; the data.
Every number is compared with the others and with the file before it is used. A file that ends with its header
is a header that was cut off on purpose: it has names and shapes, and no tensor of it can be read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from archcli.errors import ArchError, Problem, quote
from archcli.load.yaml.text import open_regular, refuse_beyond

MOST_HEADER = 25_000_000
"""Bytes of a header, as huggingface_hub reads at most; safetensors itself would read 100,000,000."""

MOST_VALUES = 1 << 18
"""Commas and brackets of a JSON, which bound what parsing it takes: 50,000 tensors of a file, or 262,144
of an index."""

MOST_TENSORS = 1 << 18
"""Tensors of all files of a checkpoint; Kimi K2 with 384 experts in 61 layers stores 140,000."""

# the file begins with the header's length, a little-endian u64
LENGTH_BYTES = 8
# what a clone without git-lfs has in place of the file
POINTER = b"version https://git-lfs"
# a header is a stranger's: products of its sizes are computed, and stay small
MOST_AXES, LARGEST_AXIS = 16, 2**63
ENDS = 2
"""A tensor's place is its first byte and the one after its last."""

# characters of a JSON parser's message
MOST_SHOWN = 120

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Width of an element by the format's names of dtypes."""


class TensorEntry(NamedTuple):
    """A tensor of a file: its dtype and shape, and where its bytes begin and end in the file."""

    dtype: str
    shape: tuple[int, ...]
    path: Path
    begin: int
    end: int


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Every tensor of a file by name; ArchError for a truncated or other file."""
    refuse_beyond(path, str(path))
    try:
        with open_regular(path) as file:
            return _header(file, path)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror or error}", path=str(path))) from None


def read_tensor(stored: TensorEntry) -> bytearray:
    """Read the bytes of one tensor, little-endian."""
    data = bytearray(stored.end - stored.begin)
    try:
        with stored.path.open("rb") as file:
            file.seek(stored.begin)
            if file.readinto(data) != len(data):
                raise ArchError(Problem("the file became shorter while it was read", path=str(stored.path)))
    except OSError as error:
        raise ArchError(
            Problem(f"cannot be read: {error.strerror or error}", path=str(stored.path))
        ) from None
    return data


def _header(file: BinaryIO, path: Path) -> dict[str, TensorEntry]:
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(len(POINTER))
    if start.startswith(POINTER):
        raise ArchError(
            Problem("a pointer of git-lfs, not the file itself", "git lfs pull fetches it", path=str(path))
        )
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if size < LENGTH_BYTES or not len("{}") <= length <= min(MOST_HEADER, size - LENGTH_BYTES):
        what = f"says that {length:,} bytes of header follow" if size >= LENGTH_BYTES else f"has {size} bytes"
        raise ArchError(
            Problem(
                f"not a safetensors file: it {what}",
                f"of its header, 2 to {MOST_HEADER:,} bytes are read",
                path=str(path),
            )
        )
    file.seek(LENGTH_BYTES)
    entries = parsed(file.read(length), str(path))
    # a mapping of texts beside the tensors
    entries.pop("__metadata__", None)
    return {name: _stored(name, entry, path, LENGTH_BYTES + length, size) for name, entry in entries.items()}


def parsed(data: bytes, path: str) -> dict[str, Any]:
    """Parse a JSON mapping; ArchError for anything else, for repeated keys and for far too many values."""
    if max(map(data.count, (b",", b"{", b"["))) > MOST_VALUES:
        what = f"its JSON has more than {MOST_VALUES:,} values"
        raise ArchError(Problem(what, "no checkpoint has so many tensors", path=path))
    try:
        mapping = json.loads(data.decode("utf-8"), object_pairs_hook=_refuse_repeated_keys)
    except RecursionError:
        raise ArchError(Problem("its JSON is nested too deep", path=path)) from None
    except ValueError as error:  # no UTF-8, no JSON, a key twice, a number of thousands of digits
        raise ArchError(Problem(f"its JSON cannot be read: {str(error)[:MOST_SHOWN]}", path=path)) from None
    if not isinstance(mapping, dict):
        raise ArchError(Problem("its JSON is no mapping", path=path))
    return mapping


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    # json.loads keeps the last of repeated keys without a word
    if len(mapping) < len(pairs):
        raise ValueError("a key comes twice")
    return mapping


def _stored(name: str, entry: Any, path: Path, start: int, size: int) -> TensorEntry:
    """Validate an entry of the header against the size of the file."""
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if (
        not isinstance(dtype, str)
        or not whole(shape, MOST_AXES)
        or not whole(place, ENDS)
        or len(place) < ENDS
    ):
        what = f"tensor {quote(name)} has no dtype, shape and data_offsets that can be read"
        raise ArchError(Problem(what, path=str(path)))
    begin, end = place
    elements = 1
    for axis in shape:
        elements *= axis
    # a dtype that is newer than `BITS` is taken as it is; elements of 4 and 6 bits share bytes
    if begin > end or (dtype in BITS and (elements * BITS[dtype] + 7) // 8 != end - begin):
        axes = "×".join(map(str, shape)) or "scalar"
        what = f"tensor {quote(name)} of {dtype} {axes} cannot lie in bytes {begin:,} to {end:,}"
        raise ArchError(Problem(what, path=str(path)))
    # a header alone, as `head -c` cuts it off, is no unfinished download
    if start + end > size > start:
        beyond = start + end - size
        what = f"the file is cut short: tensor {quote(name)} ends {beyond:,} bytes after it"
        raise ArchError(Problem(what, path=str(path)))
    return TensorEntry(dtype, tuple(shape), path, start + begin, start + end)


def whole(numbers: Any, most: int) -> bool:
    """Whether this is a short list of whole numbers from 0."""
    if not isinstance(numbers, list) or len(numbers) > most:
        return False
    return all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < LARGEST_AXIS
        for number in numbers
    )


def bounded(tensors: int, path: str) -> None:
    """ArchError for more tensors than any checkpoint has."""
    if tensors > MOST_TENSORS:
        what = f"more than {MOST_TENSORS:,} tensors, which is beyond reason"
        raise ArchError(Problem(what, "are its files those of one checkpoint?", path=path))
