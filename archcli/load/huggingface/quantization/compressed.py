"""Readers of compressed-tensors and NVIDIA's ModelOpt: groups of modules, each with its own format."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.patterns import Patterns
from archcli.load.huggingface.quantization.scheme import AS_IT_IS, Scheme, block_size, entries, grouped
from archcli.modules.stored.quantization import Packing

FP32, MODEL, INDEX = 32, 16, 32
MOST_GROUPS = 100
SHAPE = 2 * 64
"""`weight_shape`: two integers of 64 bits."""

LINEAR = "Linear"
PACKED, FLOAT = ("pack-quantized",), ("float-quantized", "naive-quantized", "int-quantized")
FOUR_BITS = {"nvfp4-pack-quantized": (16, True), "mxfp4-pack-quantized": (32, False)}
"""Format: its group size, and whether a matrix has a scale of fp32 as well."""


def compressed_tensors(config: Config) -> Scheme | None:
    """The formats of `config_groups` by their targets; those of class Linear are the rule."""
    usual, overrides, about = AS_IT_IS, [], []
    groups = config.inner("config_groups", {})
    for name in groups.data:
        group = groups.inner(name, {})
        kind = group.get("format", default=None) or config.get("format", default="dense")
        packing = _packing(group, kind) if isinstance(kind, str) else None
        if packing is None:
            return None
        about.append(f"{kind}, {packing.bits} bits {grouped(packing.group_size)}")
        targets = entries(group, "targets")
        if LINEAR in targets:
            usual = packing
        named = [target for target in targets if target != LINEAR]
        overrides += [(Patterns(named), packing)] if named else []
    kept = Patterns(entries(config, "ignore"))
    sparse = config.inner("sparsity_config", {}).get("format", default="dense")
    if not about or sparse != "dense" or len(groups.data) > MOST_GROUPS:
        return None
    words = f"compressed-tensors {'; '.join(dict.fromkeys(about))}"
    return Scheme(words, usual, kept, ("router",), overrides=tuple(overrides))


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
        return Packing(4, block, 8, 0, "tensor", FP32, matrix_bits=FP32 if inputs.data else 0)
    size = _size(weights)
    if size is None or kind not in PACKED + FLOAT:
        return None
    rows, width = size if isinstance(size, tuple) else (1, size)
    if kind in PACKED:
        index = INDEX if weights.get("actorder", default=None) == "group" else 0
        return Packing(bits, width, MODEL, bits if asymmetric else 0, input_bits=index, matrix_bits=SHAPE)
    zero = 8 if asymmetric else 0
    return Packing(bits, width, MODEL, zero, group_rows=rows, matrix_bits=MODEL if static else 0)


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


def modelopt(config: Config) -> Scheme | None:
    """NVFP4 in groups of 16 with scales of fp8, or fp8; a scale of fp32 a matrix, and one for its inputs."""
    inner = config.inner("quantization", {}) if "quantization" in config.data else config
    known = {
        "NVFP4": ("nvfp4", Packing(4, 16, 8, 0, "tensor", FP32, matrix_bits=FP32)),
        "FP8": ("fp8", Packing(8, "tensor", FP32, matrix_bits=FP32)),
    }
    algorithm = inner.get("quant_algo", default=None)
    if algorithm not in known:
        return None
    about, packing = known[algorithm]
    kept = Patterns(entries(inner, "ignore", "exclude_modules"), globs=True)
    return Scheme(f"modelopt {about}", packing, kept, ("router",))
