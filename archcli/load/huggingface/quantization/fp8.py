"""Forms of 8-bit floats, and of experts of 4 bits beside them.

DeepSeek-V3's `weight_scale_inv` (arXiv:2412.19437 section 3.3), AutoFP8's `weight_scale`, FBGEMM's; MXFP8 and
MXFP4 of OCP Microscaling 1.0.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    FP32,
    MXFP4,
    MXFP8,
    NVFP4,
    Scheme,
    block_size,
    entries,
    grouped,
    kept_or_head,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing


def fp8(config: Config) -> Scheme | None:
    """8 bits with a scale for a block of 128 x 128, or one for a matrix; experts may have 4 bits."""
    # ignored_layers is a key of AutoFP8, whose scales are of whole matrices
    per_tensor = config.stated_null("weight_block_size") or "ignored_layers" in config.data
    static = config.get("activation_scheme", default="dynamic") == "static"
    of_matrix = FP32 if static else 0
    kept = Patterns(entries(config, "modules_to_not_convert", "ignored_layers"), endings=True)
    config.ignore("fmt", "quant_algo", "kv_cache_quant_algo", "group_size")
    experts = _experts(config)
    if experts is None:
        return None
    if per_tensor and not config.get("weight_block_size", default=None):
        packing = Packing(8, "tensor", FP32, matrix_bits=of_matrix)
        return Scheme("FP8 with a scale a matrix", packing, kept, native="fp8", of_groups=experts)
    block = block_size(config.get("weight_block_size", default=[128, 128]))
    if block is None:
        return None
    rows, columns = block
    # DeepSeek-V3.1 states ue8m0 for values of scales that it stores in fp32; V4 stores them in a byte
    in_bytes = config.get("scale_fmt", default="float") == "ue8m0" and (experts or block != (128, 128))
    packing = Packing(8, columns, 8 if in_bytes else FP32, group_rows=rows, matrix_bits=of_matrix)
    about = f"FP8 in blocks of {rows} x {columns} with a scale of {'8 bits' if in_bytes else 'fp32'}"
    if experts:
        [of_experts] = experts.values()
        about += f", experts of {of_experts.bits} bits {grouped(of_experts.group_size)}"
    return Scheme(about, packing, kept, native="fp8", of_groups=experts)


def _experts(config: Config) -> dict[str, Packing] | None:
    """The format of experts where it differs, by their group; None for one that is not known.

    `expert_dtype` fp4 of DeepSeek-V4: a byte of e8m0 for 32 values (its inference/model.py). `moe_quant_algo`
    NVFP4 is that of NVIDIA's exports of it, whatever its expert_dtype says of the source.
    """
    algorithm = config.get("moe_quant_algo", default=None)
    dtype = config.get("expert_dtype", default=None)
    if algorithm is not None:
        known = {"NVFP4": NVFP4._replace(matrix_bits=FP32), "W4A16_NVFP4": NVFP4, "MXFP4": MXFP4}
        packing = known.get(algorithm.upper()) if isinstance(algorithm, str) else None
        return None if packing is None else {"experts": packing}
    if dtype in {None, "fp8"}:
        return {}
    return {"experts": MXFP4} if dtype == "fp4" else None


def mxfp8(config: Config) -> Scheme:
    """8 bits with a byte of e8m0 for 32 values of a row."""
    kept = Patterns(entries(config, "modules_to_not_convert", "ignored_layers"), endings=True)
    rows, columns = block_size(config.get("weight_block_size", default=None)) or (1, 32)
    packing = MXFP8._replace(group_size=columns, group_rows=rows)
    config.ignore("activation_scheme", "fmt", "scale_fmt")
    return Scheme(f"MXFP8 {grouped(columns)}", packing, kept, native="mx")


def w8a8(config: Config) -> Scheme:
    """8 bits with a scale of fp32 a row, of SGLang's w8a8_fp8 and w8a8_int8."""
    method = config.get("quant_method")
    kept = Patterns(entries(config, "modules_to_not_convert", "ignore"), endings=True)
    return Scheme(f"{method} with a scale a row", Packing(8, "row", FP32), kept, native=method[5:])


def fbgemm_fp8(config: Config) -> Scheme:
    """8 bits with a scale of fp32 a row."""
    return Scheme("FP8 with a scale a row", Packing(8, "row", FP32), *kept_or_head(config), native="fp8")


def mxfp4(config: Config) -> Scheme:
    """Experts in blocks of 32 of 4 bits with a scale of 8 bits."""
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    about = "MXFP4, experts in blocks of 32"
    return Scheme(about, MXFP4, kept, only=("experts",), native="mx")
