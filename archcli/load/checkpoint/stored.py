"""The form in which .safetensors hold plain weights: the width of each matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

from archcli.load.checkpoint.safetensors import BITS, TensorEntry
from archcli.load.huggingface.quantization.storage import of_file
from archcli.load.huggingface.weights.map import WeightMap
from archcli.modules import Model
from archcli.modules.stored.formats import Packing

VECTORS = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}
"""Dtypes of norms and biases, by archcli's names."""


def stored_form(
    model: Model, tensors: Mapping[str, TensorEntry | None], weights: WeightMap
) -> dict[str, Any] | None:
    """The `quantization` of a checkpoint's matrices; None where all have 16 bits, or not all are plain."""
    packings: dict[str, Packing] = {}
    vectors: Counter[str] = Counter()
    for name, tensor in tensors.items():
        target = weights.find(name)
        if target is None or tensor is None or tensor.dtype not in BITS:
            continue
        if target.packed:
            return None
        if len(tensor.shape) == 1 and tensor.dtype in VECTORS:
            vectors[VECTORS[tensor.dtype]] += prod(tensor.shape)
        packings |= dict.fromkeys(target.names, Packing(BITS[tensor.dtype], scale_bits=0))
    rest, _ = (vectors or Counter(bf16=1)).most_common(1)[0]
    return of_file(model, packings, rest)
