"""Forms of compressed-tensors: `config_groups`, each with a format, its weights and its targets."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP16,
    FP32,
    INDEX,
    MOST_SETTINGS,
    MXFP8,
    Scheme,
    block_size,
    entries,
    grouped,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing

SHAPE = 2 * 64
"""`weight_shape`: two integers of 64 bits."""

MULTIPLIED = {
    "float-quantized": "fp8",
    "int-quantized": "int8",
    "nvfp4-pack-quantized": "nvfp4",
    "mxfp4-pack-quantized": "mx",
    "mxfp8-quantized": "mx",
}
"""Formats of compressed-tensors that some devices multiply natively."""
LINEAR = "Linear"
PACKED, FLOAT = ("pack-quantized",), ("float-quantized", "naive-quantized", "int-quantized")
# NVFP4: a scale of fp8 for 16 values, and one of fp32; MXFP4 (OCP Microscaling 1.0): of e8m0 for 32
BYTE = 8
FOUR_BITS = {"nvfp4-pack-quantized": (16, True), "mxfp4-pack-quantized": (32, False)}
"""Format: its group size, and whether a matrix has a scale of fp32 as well."""


def compressed_tensors(config: Config) -> Scheme | None:
    """The formats of `config_groups` by target; that of class Linear is the rule."""
    usual, overrides, about = AS_IT_IS, [], []
    groups = config.inner("config_groups", {})
    for name in groups.data:
        group = groups.inner(name, {})
        kind = _format(config, group)
        packing = _packing(group, kind) if isinstance(kind, str) else None
        if packing is None:
            return None
        about.append(f"{kind}, {packing.bits} bits {grouped(packing.group_size)}")
        targets = entries(group, "targets")
        if LINEAR in targets:
            usual = packing
        named = [target for target in targets if target != LINEAR]
        overrides += [(Patterns(named, whole=True), packing)] if named else []
    # exports list modules around packed ones as well: `layers.0.linear_attn` beside its in_proj_a
    kept = Patterns(entries(config, "ignore"), whole=True)
    sparse = config.inner("sparsity_config", {}).get("format", default="dense")
    if not about or sparse != "dense" or len(groups.data) > MOST_SETTINGS:
        return None
    description = f"compressed-tensors {'; '.join(dict.fromkeys(about))}"
    native = _native(config, groups)
    return Scheme(description, usual, kept, ("router",), overrides=tuple(overrides), native=native)


def _native(config: Config, groups: Config) -> str:
    """The format that some devices multiply natively: with quantized inputs; empty for any other."""
    kinds = set()
    for name in groups.data:
        group = groups.inner(name, {})
        kind = _format(config, group)
        has_inputs = bool(group.inner("input_activations", {}).data)
        kinds.add(MULTIPLIED.get(kind, "") if has_inputs else "")
    return kinds.pop() if len(kinds) == 1 else ""


def _format(config: Config, group: Config) -> str:
    """The format of a group: the group's, else the file's, else by the type of its numbers.

    `infer_quantization_format` of compressed-tensors: floats of 8 bits, integers of 8 with quantized inputs,
    all else packed.
    """
    form = group.get("format", default=None) or config.get("format", default=None)
    if isinstance(form, str) and form != "mixed-precision":
        return form
    weights, inputs = group.inner("weights", {}), group.inner("input_activations", {})
    bits, kind = weights.get("num_bits", default=8), weights.get("type", default="int")
    if kind == "float":
        grouped_by = weights.get("group_size", default=None)
        of_four = "nvfp4-pack-quantized" if grouped_by in {None, 16} else "mxfp4-pack-quantized"
        return "float-quantized" if bits == BYTE else of_four
    return "int-quantized" if bits == BYTE and inputs.data else "pack-quantized"


def _packing(group: Config, kind: str) -> Packing | None:
    """The layout of a group's weights in a format of compressed-tensors; None for other formats."""
    weights, inputs = group.inner("weights", {}), group.inner("input_activations", {})
    asymmetric = weights.get("symmetric", default=True) is False
    static = bool(inputs.data) and inputs.get("dynamic", default=False) is False
    bits = weights.size("num_bits", default=8).value
    if kind in FOUR_BITS:
        block, scaled = FOUR_BITS[kind]
        if not scaled:
            return Packing(4, block, 8)
        # weight_global_scale, and where inputs are quantized input_global_scale
        return Packing(4, block, 8, 0, "tensor", FP32, matrix_bits=FP32 if inputs.data else 0)
    if kind == "mxfp8-quantized":
        return MXFP8
    size = _size(weights)
    if size is None or kind not in PACKED + FLOAT:
        return None
    rows, width = size if isinstance(size, tuple) else (1, size)
    if kind in PACKED:
        # with actorder "weight" groups stay in order; with "group" the group of each input is stored
        index = INDEX if weights.get("actorder", default=None) == "group" else 0
        return Packing(bits, width, FP16, bits if asymmetric else 0, input_bits=index, matrix_bits=SHAPE)
    zero = 8 if asymmetric else 0
    return Packing(bits, width, FP16, zero, group_rows=rows, matrix_bits=FP16 if static else 0)


def _size(weights: Config) -> int | str | tuple[int, int] | None:
    """The weights that share a scale: tensor, row, a number of neighbours, or (rows, neighbours)."""
    strategy, group = weights.get("strategy", default=None), weights.optional_size("group_size")
    if strategy is None:
        strategy = "tensor" if group is None else "group"
    block = weights.get("block_structure", default=None)
    if strategy == "block":
        return block_size(block)
    if strategy == "group":
        return None if group is None else group.value
    return {"tensor": "tensor", "channel": "row"}.get(strategy if isinstance(strategy, str) else "")
