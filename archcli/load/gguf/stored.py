"""The stored form of a GGUF file's weights: the bits of each matrix, by its type.

Block structs of ggml-common.h of github.com/ggml-org/ggml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

from archcli.load.gguf.arch import Arch
from archcli.load.gguf.header import Header
from archcli.load.gguf.tensors import TYPES, as_counted, counted_weights, weights_of
from archcli.load.huggingface.quantization.storage import of_file
from archcli.modules import Model
from archcli.modules.stored.formats import GGML, Packing

# QK_K of ggml-common.h
SUPER_BLOCK = 256


def _plain(bits: int) -> Packing:
    """Numbers without scales."""
    return Packing(bits, scale_bits=0)


OTHERS: Mapping[str, Packing] = {
    "f64": _plain(64),
    "f32": _plain(32),
    "f16": _plain(16),
    "bf16": _plain(16),
    # block_q8_1: d and s of fp16 for 32 values; block_q8_K: d of fp32 and 16 sums of 16 bits for 256
    "q8_1": Packing(8, 32, 32),
    "q8_k": Packing(8, SUPER_BLOCK, 32 + 16 * 16),
}
"""Types beyond those of `GGML`, which matrices are quantized to."""

PLAIN = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}
"""Types of norms and biases, by archcli's names."""


def tensor_bytes(header: Header) -> int:
    """Bytes of all tensors of a file, without those of types that are not known."""
    bits = 0
    for tensor in header.tensors.values():
        kind = TYPES.get(tensor.type, "").lower()
        if packing := GGML.get(kind) or OTHERS.get(kind):
            stored = packing.bits_of(tensor.shape or (1,), 0)
            bits += stored.values + stored.scales
    return bits // 8


def stored_form(model: Model, header: Header, arch: Arch) -> dict[str, Any] | None:
    """The `quantization` of a file's matrices; None where a type is not known or a matrix has no tensor."""
    ours = dict(counted_weights(model))
    packings: dict[str, Packing] = {}
    vectors: Counter[str] = Counter()
    for name, tensor in header.tensors.items():
        kind = TYPES.get(tensor.type, "").lower()
        packing = GGML.get(kind) or OTHERS.get(kind)
        if len(tensor.shape) == 1 and kind in PLAIN:
            vectors[PLAIN[kind]] += prod(tensor.shape)
        # several matrices in one tensor have its type, and one in several tensors that of the last
        packings |= dict.fromkeys(as_counted(weights_of(name, arch), ours), packing) if packing else {}
    rest, _ = (vectors or Counter(fp32=1)).most_common(1)[0]
    return of_file(model, packings, rest)
