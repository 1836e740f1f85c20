"""A small .safetensors file, written by hand after the format's description."""

import json

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
