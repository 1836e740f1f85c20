"""A writer of GGUF files without data, after the specification (docs/gguf.md of ggml)."""

import struct

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BOOL, STRING, ARRAY = 7, 8, 9
U32, I32, F32, U64 = 4, 5, 6, 10


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return text(value) if kind == STRING else struct.pack(f"<{FORMATS[kind]}", value)


def array(kind, values):
    """An array as `entry` takes it: its type is 9."""
    return ARRAY, struct.pack("<IQ", kind, len(values)) + b"".join(scalar(kind, value) for value in values)


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + (value if kind == ARRAY else scalar(kind, value))


def typed(value):
    """(type, value) as the converters of llama.cpp write a Python value."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, list):
        kind = typed(value[0])[0] if value else U32
        return array(I32 if kind == U32 else kind, value)
    kinds = {bool: BOOL, int: U32, float: F32, str: STRING}
    return kinds[type(value)], value


def tensor(name, shape, kind=1, offset=0):
    """The shape as torch has it; a file has the innermost axis first."""
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset)


def gguf(metadata, tensors, version=3, types=None):
    """The bytes of a whole header.

    Metadata as a mapping or as (key, value) pairs, tensors as name -> shape or as such pairs.
    """
    metadata = list(metadata.items() if isinstance(metadata, dict) else metadata)
    tensors = list(tensors.items() if isinstance(tensors, dict) else tensors)
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    entries = b"".join(entry(key, *typed(value)) for key, value in metadata)
    return (
        start + entries + b"".join(tensor(name, shape, (types or {}).get(name, 1)) for name, shape in tensors)
    )
