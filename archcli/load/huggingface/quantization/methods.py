"""Readers of a quantization_config by quant_method: GPTQ, AWQ, bitsandbytes, fp8, ….

GPTQ: AutoGPTQ and GPTQModel, `qweight`, `qzeros`, `scales`, `g_idx`. AWQ: AutoAWQ's WQLinear_GEMM. fp8:
DeepSeek-V3's `weight_scale_inv` (arXiv:2412.19437 section 3.3), AutoFP8's `weight_scale`, FBGEMM's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP32,
    Reader,
    Scheme,
    block_size,
    entries,
    group_of,
    grouped,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing

FP16, INDEX = 16, 32
"""Bits of a scale in the model's fp16 or bf16, and of an input's group in `g_idx`."""
MOST_SETTINGS = 100
"""Settings by group or module that are read: real files have a few."""
SHAPE = 2 * 64
"""`weight_shape`: two integers of 64 bits."""

MULTIPLIED = {
    "float-quantized": "fp8",
    "int-quantized": "int8",
    "nvfp4-pack-quantized": "nvfp4",
    "mxfp4-pack-quantized": "mx",
}
"""Formats of compressed-tensors whose matrices some devices multiply as they are."""
LINEAR = "Linear"
PACKED, FLOAT = ("pack-quantized",), ("float-quantized", "naive-quantized", "int-quantized")
# NVFP4: a scale of fp8 for 16 values, and one of fp32; MXFP4 (OCP Microscaling 1.0): of e8m0 for 32
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
    if not about or sparse != "dense" or len(groups.data) > MOST_SETTINGS:
        return None
    description = f"compressed-tensors {'; '.join(dict.fromkeys(about))}"
    native = _native(config, groups)
    return Scheme(description, usual, kept, ("router",), overrides=tuple(overrides), native=native)


def _native(config: Config, groups: Config) -> str:
    """What some devices multiply as it is: weights whose inputs are quantized as well; empty for others."""
    kinds = set()
    for name in groups.data:
        group = groups.inner(name, {})
        kind = group.get("format", default=None) or config.get("format", default="dense")
        has_inputs = bool(group.inner("input_activations", {}).data)
        kinds.add(MULTIPLIED.get(kind, "") if has_inputs else "")
    return kinds.pop() if len(kinds) == 1 else ""


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
    return Scheme(f"modelopt {about}", packing, kept, ("router",), native=about)


MLX_EXPERTS = re.compile(r"\b(mlp|block_sparse_moe)\.switch_mlp\b")
"""MLX's name of the experts of a layer, which it stacks."""

NF4_TABLE, NESTED_TABLE = 16 * FP32, 256 * FP32
"""bitsandbytes' `quant_map` and `nested_quant_map`: the values that codes stand for."""


def gptq(config: Config) -> Scheme | None:
    """Values and zero points of `bits`, a scale of fp16 a group, and the group of each input."""
    bits, group = config.size("bits").value, group_of(config, "group_size")
    layout = config.get("checkpoint_format", default="gptq")
    if layout not in ("gptq", "gptq_v2", "marlin"):
        return None
    # the layout of Marlin's kernels has neither zero points nor g_idx
    marlin = layout == "marlin" or bool(config.get("is_marlin_format", default=False))
    packing = Packing(bits, group, FP16, 0 if marlin else bits, input_bits=0 if marlin else INDEX)
    only = _modules_in_block(config)
    if len(config.inner("dynamic", {}).data) > MOST_SETTINGS:
        return None
    return Scheme(
        f"gptq, {bits} bits {grouped(group)}",
        packing if only is None else AS_IT_IS,
        Patterns(entries(config, "modules_to_not_convert"), endings=True),
        ("router",) if config.get("lm_head", default=False) is True else ("lm_head", "router"),
        overrides=(*_dynamic(config, packing), *(() if only is None else ((only, packing),))),
        layers_only=config.get("lm_head", default=False) is not True,
        in_words=True,
    )


def _modules_in_block(config: Config) -> Patterns | None:
    """The only modules of a layer that are packed, listed by step of calibration; None: all are."""
    steps = entries(config, "modules_in_block_to_quantize")
    names = [name for step in steps for name in (step if isinstance(step, list) else [step])]
    return Patterns(names) if names else None


def _dynamic(config: Config, packing: Packing) -> list[tuple[Patterns, Packing]]:
    """GPTQModel's settings by pattern: `-:` leaves modules as they are, `+:` or nothing changes settings."""
    rules = config.inner("dynamic", {})
    overrides = []
    for key in rules.data:
        # a colon may stand in the pattern, too: (?:q|k)_proj
        sign, regex = (key[0], key[2:]) if key[:2] in {"-:", "+:"} else ("", key)
        of_module = AS_IT_IS
        if sign != "-":
            settings = rules.inner(key, {})
            bits = settings.size("bits", default=packing.bits).value
            group = group_of(settings, "group_size", default=packing.group_size)
            of_module = packing._replace(
                bits=bits, group_size=group, zero_bits=bits if packing.zero_bits else 0
            )
        overrides.append((Patterns([f"re:{regex}"]), of_module))
    return overrides


def awq(config: Config) -> Scheme | None:
    """Values of 4 bits, a scale of fp16 and a zero point of 4 bits a group."""
    bits, group = config.size("bits", "w_bit").value, group_of(config, "group_size", "q_group_size")
    version = config.get("version", default="gemm")
    if not isinstance(version, str) or version.lower() not in ("gemm", "exllama", "ipex"):
        return None
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    packing = Packing(bits, group, FP16, bits)
    return Scheme(f"awq, {bits} bits {grouped(group)}", packing, kept, layers_only=True, in_words=True)


def bitsandbytes(config: Config) -> Scheme | None:
    """4 bits in blocks of 64 with a scale of fp32, or of 8 bits again in blocks of 256; 8 bits by row."""
    skipped = config.get("llm_int8_skip_modules", default=None)
    kept, keeps = (
        Patterns(entries(config, "llm_int8_skip_modules"), endings=True),
        () if skipped else ("lm_head",),
    )
    # BitsAndBytesConfig of transformers writes its properties with an underscore
    if config.get("load_in_8bit", "_load_in_8bit", default=False) is True:
        # SCB, a scale of fp32 for each row, and a byte of weight_format
        packing = Packing(8, "row", FP32, matrix_bits=8)
        return Scheme("bitsandbytes, 8 bits with a scale a row", packing, kept, keeps)
    kind = config.get("bnb_4bit_quant_type", default="fp4")
    if config.get("load_in_4bit", "_load_in_4bit", default=False) is not True or kind not in ("nf4", "fp4"):
        return None
    # the block sizes of bitsandbytes' quantize_4bit, 64 and 256, which no config.json states
    packing = Packing(4, 64, FP32, matrix_bits=NF4_TABLE)
    about = f"bitsandbytes, {kind} in blocks of 64"
    if config.get("bnb_4bit_use_double_quant", default=False) is True:
        packing = Packing(4, 64, 8, 0, 256, FP32, matrix_bits=NF4_TABLE + NESTED_TABLE)
        about += ", scales quantized again"
    return Scheme(about, packing, kept, keeps)


def fp8(config: Config) -> Scheme | None:
    """8 bits with a scale of fp32 for a block of 128 x 128, or one for a matrix."""
    # ignored_layers is a key of AutoFP8, whose scales are of whole matrices
    per_tensor = config.stated_null("weight_block_size") or "ignored_layers" in config.data
    static = config.get("activation_scheme", default="dynamic") == "static"
    scales = {"matrix_bits": FP32 if static else 0}
    kept = Patterns(entries(config, "modules_to_not_convert", "ignored_layers"), endings=True)
    if per_tensor and not config.get("weight_block_size", default=None):
        return Scheme("fp8 with a scale a matrix", Packing(8, "tensor", FP32, **scales), kept, native="fp8")
    block = block_size(config.get("weight_block_size", default=[128, 128]))
    if block is None:
        return None
    rows, columns = block
    packing = Packing(8, columns, FP32, group_rows=rows, **scales)
    about = f"fp8 in blocks of {rows} x {columns} with a scale of fp32"
    return Scheme(about, packing, kept, native="fp8")


def fbgemm_fp8(config: Config) -> Scheme:
    """8 bits with a scale of fp32 a row."""
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    return Scheme("fp8 with a scale a row", Packing(8, "row", FP32), kept, native="fp8")


def mxfp4(config: Config) -> Scheme:
    """Experts in blocks of 32 of 4 bits with a scale of 8 bits."""
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    about = "mxfp4, experts in blocks of 32"
    return Scheme(about, Packing(4, 32, 8), kept, only=("experts",), native="mx")


def bitnet(config: Config) -> Scheme | None:
    """2 bits a value, a scale of bf16 a matrix; in online mode the files hold plain weights."""
    if config.get("quantization_mode", default="offline") != "offline":
        return None
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    return Scheme("bitnet, 2 bits with a scale a matrix", Packing(2, "tensor", 16), kept)


def mlx(config: Config) -> Scheme | None:
    """Values, a scale and a bias of 16 bits a group, of every matrix and the table; mxfp4 without bias.

    Modules with settings of their own stand in the same mapping, by name.
    """
    usual = _mlx_packing(config)
    if usual is None:
        return None
    named: dict[Packing, list[str]] = {}
    for name in (name for name, value in config.data.items() if isinstance(value, dict)):
        of_module = _mlx_packing(config.inner(name, config.data)) or usual
        named.setdefault(of_module, []).append(MLX_EXPERTS.sub("mlp.experts.0", name))
    overrides = tuple((Patterns(names), of_module) for of_module, names in named.items())
    # MLX states false for a module that stays as it is
    kept = Patterns([name for name, value in config.data.items() if value is False])
    about = f"mlx, {usual.bits} bits {grouped(usual.group_size)}"
    return Scheme(about, usual, kept, (), overrides=overrides, tables=True)


def _mlx_packing(config: Config) -> Packing | None:
    mode = config.get("mode", default="affine")
    bits, group = config.size("bits").value, config.size("group_size").value
    layouts = {"affine": Packing(bits, group, FP16, FP16), "mxfp4": Packing(bits, group, 8)}
    return layouts.get(mode) if isinstance(mode, str) else None


METHODS: Mapping[str, Reader] = {
    "awq": awq,
    "bitnet": bitnet,
    "bitsandbytes": bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "fbgemm_fp8": fbgemm_fp8,
    "fp8": fp8,
    "gptq": gptq,
    "mlx": mlx,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "mxfp4": mxfp4,
}
"""Readers by `quant_method`."""


def method_of(data: Mapping[str, Any]) -> str:
    """The quant_method of a file, or for want of one what its keys imply; empty for an unknown method."""
    method = data.get("quant_method")
    if isinstance(method, str):
        return method.lower()
    if {"load_in_4bit", "load_in_8bit"}.intersection(data):
        return "bitsandbytes"
    if "config_groups" in data:
        return "compressed-tensors"
    return "gptq" if {"bits", "group_size", "desc_act"} <= data.keys() else ""
