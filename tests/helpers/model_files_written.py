"""Small GGUF and safetensors files of models, whole or damaged, for tests that list them."""

import json
import os
from struct import pack

from gguf_files.file import gguf
from hub.cache import CONFIG

METADATA = {"general.architecture": "llama", "llama.block_count": 1}
TENSORS = {"token_embd.weight": (64, 32), "output_norm.weight": (32,)}
DATA = 4 * (64 * 32 + 32)
"""Bytes of these tensors in fp32."""


def write_gguf(path, more=0, metadata=METADATA, tensors=TENSORS, size=DATA):
    """A GGUF file with data of this size, and its bytes in all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = gguf(metadata, tensors, types=dict.fromkeys(tensors, 0))
    path.write_bytes(header)
    os.truncate(path, len(header) + size + more)
    return len(header) + size + more


def write_safetensors(path, names=("a", "b"), cut=0):
    """A safetensors file of 4 fp32 numbers by each name, and its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = {
        name: {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]}
        for i, name in enumerate(names)
    }
    header = json.dumps(entries).encode()
    path.write_bytes(pack("<Q", len(header)) + header + bytes(16 * len(names) - cut))
    return path.stat().st_size


def write_folder(folder, **of_weights):
    size = write_safetensors(folder / "model.safetensors", **of_weights)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return size
