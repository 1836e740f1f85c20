"""Forms of integers in groups that other libraries write: MLX, bitsandbytes, HQQ, quanto, AQLM, …."""

from __future__ import annotations

import re

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP16,
    FP32,
    HEAD,
    MXFP4,
    NVFP4,
    TABLES,
    Scheme,
    averaging,
    by_module,
    entries,
    grouped,
    kept_or_head,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import FLATTENED, Packing

MLX_EXPERTS = re.compile(r"\b(mlp|block_sparse_moe)\.switch_mlp\b")
"""MLX's name of the experts of a layer, which it stacks."""

BYTE, THREE = 8, 3
MLC_FORM = re.compile(r"q(?P<bits>[34])f(?P<of>16|32)_(?P<number>[012])")

NF4_TABLE, NESTED_TABLE = 16 * FP32, 256 * FP32
"""bitsandbytes' `quant_map` and `nested_quant_map`: the values that codes stand for."""


def bitsandbytes(config: Config) -> Scheme | None:
    """4 bits in blocks of 64 with a scale of fp32, or of 8 bits again in blocks of 256; 8 bits by row."""
    skipped = config.get("llm_int8_skip_modules", default=None)
    kept = Patterns(entries(config, "llm_int8_skip_modules"), endings=True)
    # classes of transformers 5 hold a router as a parameter, which is not converted
    keeps = ("router",) if skipped else HEAD
    # BitsAndBytesConfig of transformers writes its properties with an underscore
    if config.get("load_in_8bit", "_load_in_8bit", default=False) is True:
        # SCB, a scale of fp32 for each row, and a byte of weight_format
        packing = Packing(8, "row", FP32, matrix_bits=8)
        return Scheme("bitsandbytes, 8 bits with a scale a row", packing, kept, keeps)
    kind = config.get("bnb_4bit_quant_type", default="fp4")
    if config.get("load_in_4bit", "_load_in_4bit", default=False) is not True or kind not in ("nf4", "fp4"):
        return None
    # the block sizes of bitsandbytes' quantize_4bit, 64 and 256, which no config.json states
    packing = Packing(4, 64, FP32, group_rows=FLATTENED, matrix_bits=NF4_TABLE)
    about = f"bitsandbytes, {kind} in blocks of 64"
    if config.get("bnb_4bit_use_double_quant", default=False) is True:
        packing = packing._replace(scale_bits=8, second_group_size=256, second_scale_bits=FP32)
        packing = packing._replace(matrix_bits=NF4_TABLE + NESTED_TABLE)
        about += ", scales quantized again"
    return Scheme(about, packing, kept, keeps)


def bitnet(config: Config) -> Scheme:
    """2 bits a value, a scale of bf16 a matrix; in online mode the files hold plain weights."""
    if config.get("quantization_mode", default="offline") != "offline":
        return Scheme("BitNet in online mode, whose files hold plain weights", AS_IT_IS)
    return Scheme("BitNet, 2 bits with a scale a matrix", Packing(2, "tensor", 16), *kept_or_head(config))


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
    about = f"MLX, {usual.bits} bits {grouped(usual.group_size)}"
    return Scheme(about, usual, kept, (), overrides=overrides, tables=TABLES)


def _mlx_packing(config: Config) -> Packing | None:
    mode = config.get("mode", default="affine")
    bits, group = config.size("bits").value, config.size("group_size").value
    # affine has a bias for each scale; others a byte for each group, of e8m0 or fp8 (fp_quantize of mlx)
    layouts = {"affine": Packing(bits, group, FP16, FP16)}
    layouts |= {name: Packing(bits, group, 8) for name in ("mxfp4", "mxfp8", "nvfp4")}
    return layouts.get(mode) if isinstance(mode, str) else None


def mlc(config: Config) -> Scheme | None:
    """MLC's q4f16_1 and its kin: words of 32 bits with a scale for each group, of the table and head, too.

    mlc_llm/quantization/quantization.py: ten values of 3 bits lie in a word, and forty share a scale.
    """
    match = MLC_FORM.fullmatch(str(config.get("quantization", default="")))
    if match is None:
        return None
    scale = FP32 if match["of"] == "32" else FP16
    layouts = {"3": Packing(3, 40, 8 + scale), "4": Packing(4, 32, scale)}
    tables = () if match["number"] == "2" else TABLES
    keeps = ("router",) if tables else HEAD
    return Scheme(f"MLC, {match[0]}", layouts[match["bits"]], keeps=keeps, tables=tables)


def chatglm(config: Config) -> Scheme | None:
    """ChatGLM's `quantization_bit`: values of 4 or 8 bits with a scale of fp16 a row, in layers alone."""
    bits = config.size("bits").value
    about = f"ChatGLM, {bits} bits with a scale a row"
    return Scheme(about, Packing(bits, "row", FP16), layers_only=True) if bits in {4, BYTE} else None


def hqq(config: Config) -> Scheme | None:
    """HQQ: values in bytes, or ten of 3 bits in 32, with a scale and a zero point of 16 bits a group.

    `dynamic` settings are by the linear's name within a layer. hqq/core/quantize.py and bitpack.py.
    """
    settings = config.inner("quant_config", {}) if "quant_config" in config.data else config
    weights = "weight_quant_params"
    names = [name for name, value in settings.data.items() if isinstance(value, dict) and weights in value]
    settings.ignore("offload_meta", "scale_quant_params", "zero_quant_params")
    packings = {name: _hqq_packing(settings.inner(name, {}).inner(weights, {})) for name in names}
    usual = AS_IT_IS if names else _hqq_packing(settings.inner(weights, settings.data))
    is_nested = any(settings.data.get(key) for key in ("scale_quant_params", "zero_quant_params"))
    if not names and (is_nested or not {weights, "nbits", "bits"}.intersection(settings.data)):
        return None
    kept = Patterns(entries(config, "skip_modules"), endings=True)
    widths = " and ".join(dict.fromkeys(str(it.bits) for it in packings.values() or (usual,)))
    keeps = HEAD if config.get("skip_modules", default=None) is None else ("router",)
    return Scheme(f"HQQ, {widths} bits", usual, kept, keeps, overrides=by_module(packings))


def _hqq_packing(config: Config) -> Packing:
    """The format of HQQ's `weight_quant_params`."""
    bits = config.size("nbits", "bits", default=4).value
    size = config.optional_size("group_size")
    config.ignore("axis", "channel_wise", "optimize", "round_zero", "view_as_float")
    if size is None:
        return Packing(bits, "row", FP16, FP16)
    group = size.value
    if bits != THREE:
        return Packing(bits, group, FP16, FP16, group_rows=FLATTENED)
    # of ten values in 32 bits each takes 3.2: of five groups a fifth of their number of values more
    return Packing(bits, 5 * group, 5 * FP16 + group, 5 * FP16, group_rows=FLATTENED)


def quanto(config: Config) -> Scheme | None:
    """Optimum-quanto: 8 bits with a scale a row; 4 and 2 with a scale and a shift for 128 values."""
    kept, keeps = kept_or_head(config)
    config.ignore("activations")
    # input_scale and output_scale, of 16 bits each
    of_matrix = 2 * FP16
    layouts = {
        **dict.fromkeys(("int8", "float8"), Packing(8, "row", FP16, matrix_bits=of_matrix)),
        "int4": Packing(4, 128, FP16, FP16, matrix_bits=of_matrix),
        "int2": Packing(2, 128, FP16, FP16, matrix_bits=of_matrix),
    }
    kind = config.get("weights", default="int8")
    packing = layouts.get(kind) if isinstance(kind, str) else None
    return None if packing is None else Scheme(f"quanto, {kind}", packing, kept, keeps)


def eetq(config: Config) -> Scheme:
    """EETQ: 8 bits with a scale of fp16 a row (transformers/integrations/eetq.py)."""
    kept, keeps = kept_or_head(config)
    config.ignore("weights")
    return Scheme("EETQ, 8 bits with a scale a row", Packing(8, "row", FP16), kept, keeps)


def higgs(config: Config) -> Scheme:
    """HIGGS: codes of `bits`, a scale a group, tables of 2^bits and of 2 x 4^bits values of 16 bits."""
    kept, keeps = kept_or_head(config)
    bits, group = config.size("bits", default=4).value, config.size("group_size", default=256).value
    tables = FP16 * (2**bits + 2 * 4**bits)
    return Scheme(
        f"HIGGS, {bits} bits {grouped(group)}", Packing(bits, group, FP16, 0, matrix_bits=tables), kept, keeps
    )


def metal(config: Config) -> Scheme:
    """MLX's affine layout in transformers: a scale and a bias of 16 bits a group."""
    kept, keeps = kept_or_head(config)
    bits, group = config.size("bits", default=4).value, config.size("group_size", default=64).value
    return Scheme(f"Metal, {bits} bits {grouped(group)}", Packing(bits, group, FP16, FP16), kept, keeps)


def gemma(config: Config) -> Scheme:
    """Gemma's own: values of 2, 4 or 8 bits, a scale of fp32 a row, and scales of inputs and outputs."""
    bits = config.size("num_bits", default=4).value
    usual = Packing(bits, "row", FP32, matrix_bits=2 * FP32)
    modules = config.inner("module_quant_configs", {})
    settings = {
        f"re:.*{name}": usual._replace(bits=modules.inner(name, {}).size("num_bits", default=bits).value)
        for name in modules.data
    }
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    tables = ("embedding",) if config.get("quantize_embeddings", default=False) is True else ()
    about = f"Gemma, {bits} bits with a scale a row"
    return Scheme(about, usual, kept, overrides=by_module(settings), tables=tables)


def aqlm(config: Config) -> Scheme:
    """AQLM: codes of whole bytes for groups of values, codebooks of 16 bits, and a scale for outputs.

    aqlm/inference.py: `codes`, `codebooks`, `scales`.
    """
    inputs, outputs = config.size("in_group_size").value, config.size("out_group_size", default=1).value
    books, bits = config.size("num_codebooks").value, config.size("nbits_per_codebook").value
    # an integer of 8 bits or of 16 holds a code
    width = books * (8 if bits <= BYTE else 16)
    values = inputs * outputs
    codebooks = books * 2**bits * values * FP16
    packing = averaging(width / values)._replace(matrix_bits=codebooks)
    if width % values == 0:
        packing = Packing(width // values, "row", FP16, group_rows=outputs, matrix_bits=codebooks)
    kept = Patterns(
        str(name).removesuffix(".weight") for name in entries(config, "linear_weights_not_to_quantize")
    )
    keeps = ("router",) if kept else HEAD
    return Scheme(f"AQLM, {books} x {bits} bits for {values} values", packing, kept, keeps)


def fp_quant(config: Config) -> Scheme | None:
    """FP-Quant: MXFP4 or NVFP4, two scales of fp32 and two Hadamard matrices of 16 bits a matrix."""
    kept, keeps = kept_or_head(config)
    if config.get("pseudoquantization", default=False) or config.get("store_master_weights", default=False):
        return None
    kind = config.get("forward_dtype", default="nvfp4")
    usual = {"mxfp4": MXFP4, "nvfp4": NVFP4._replace(second_group_size="none")}.get(kind)
    if usual is None:
        return None
    size = config.size("hadamard_group_size", default=usual.group_size).value
    config.ignore("backward_dtype", "forward_method", "transform_init")
    return Scheme(f"FP-Quant, {kind}", usual._replace(matrix_bits=2 * FP32 + 2 * FP16 * size**2), kept, keeps)
