"""Forms of NVIDIA's ModelOpt, by `quant_algo`, for a whole model or module by module.

modelopt/torch/export/quant_utils.py and unified_export_hf.py of github.com/NVIDIA/Model-Optimizer, which
stores scaling factors in fp32; the names of TensorRT-LLM's `QuantAlgo` are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP16,
    FP32,
    MXFP4,
    MXFP8,
    NVFP4,
    Scheme,
    by_module,
    entries,
    grouped,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing

Group = int | None
"""The `group_size` that a file states."""


def _fp8_in_blocks(group: Group) -> Packing:
    """FP8 with a scale of fp32 for a block, of 128 x 128 unless the file says otherwise."""
    return Packing(8, group or 128, FP32, group_rows=group or 128)


def _int4(group: Group) -> Packing:
    """AWQ's 4 bits with a scale for each group, and `pre_quant_scale` of 16 bits for each input."""
    return Packing(4, group or 128, FP32, input_bits=FP16)


def _nvfp4(group: Group) -> Packing:
    return NVFP4._replace(group_size=group or 16)


ALGORITHMS: Mapping[str, tuple[str, Callable[[Group], Packing]]] = {
    # input_scale of fp32 where inputs are quantized by calibrated scales
    "FP8": ("fp8", lambda group: Packing(8, "tensor", FP32, matrix_bits=FP32)),  # noqa: ARG005
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8", lambda group: Packing(8, "row", FP32)),  # noqa: ARG005
    **dict.fromkeys(("FP8_PB_WO", "FP8_PB_REAL", "FP8_BLOCK_SCALES"), ("fp8", _fp8_in_blocks)),
    "NVFP4": ("nvfp4", lambda group: _nvfp4(group)._replace(matrix_bits=FP32)),
    "NVFP4_AWQ": ("nvfp4", lambda group: _nvfp4(group)._replace(input_bits=FP16, matrix_bits=FP32)),
    "W4A16_NVFP4": ("", _nvfp4),
    "W4A8_NVFP4_FP8": ("", lambda group: _nvfp4(group)._replace(matrix_bits=FP32)),
    "MXFP8": ("mx", lambda group: MXFP8._replace(group_size=group or 32)),
    "MXFP4": ("mx", lambda group: MXFP4._replace(group_size=group or 32)),
    "W4A16_MXFP4": ("", lambda group: MXFP4._replace(group_size=group or 32)),
    "W4A8_MXFP4_FP8": ("", lambda group: MXFP4._replace(group_size=group or 32, matrix_bits=FP32)),
    "W4A8_MXFP4_MXFP8": ("mx", lambda group: MXFP4._replace(group_size=group or 32)),
    "W4A16_AWQ": ("", _int4),
    # weight_scale_2 and input_scale, of fp32 each
    "W4A8_AWQ": ("", lambda group: _int4(group)._replace(matrix_bits=2 * FP32)),
    **dict.fromkeys(
        ("INT8_SQ", "W8A8_SQ_PER_CHANNEL"),
        ("int8", lambda group: Packing(8, "row", FP32, input_bits=FP16, matrix_bits=FP32)),  # noqa: ARG005
    ),
}
"""By quant_algo: what some devices multiply as it is, and the format of a matrix."""
MIXED = "MIXED_PRECISION"


def modelopt(config: Config) -> Scheme | None:
    """The format of `quant_algo` for all but the modules that are left out; or of each module by itself."""
    inner = config.inner("quantization", {}) if "quantization" in config.data else config
    config.ignore("producer", "quant_method", "config_groups")
    inner.ignore(
        "kv_cache_quant_algo", "kv_cache_scheme", "config_groups", "has_zero_point", "pre_quant_scale"
    )
    algorithm = _named(inner)
    if algorithm == MIXED:
        return _mixed(inner)
    packing = _packing(inner, algorithm)
    if packing is None:
        return None
    kept = Patterns(entries(inner, "ignore", "exclude_modules"), globs=True)
    native, _ = ALGORITHMS[algorithm]
    return Scheme(f"ModelOpt {_in_words(algorithm, packing)}", packing, kept, ("router",), native=native)


def _mixed(config: Config) -> Scheme | None:
    """The scheme of `quantized_layers`, which name each module that is packed; all else stays as it is."""
    layers = config.inner("quantized_layers", {})
    config.ignore("ignore", "exclude_modules", "group_size")
    # a file names each of ten thousand experts, and states a few different settings
    alike = {repr(entry): name for name, entry in layers.data.items()}
    formats, natives, about = {}, set(), []
    for entry, name in alike.items():
        of_module = layers.inner(name, {})
        algorithm = _named(of_module)
        packing = _packing(of_module, algorithm, config.data.get("group_size"))
        if packing is None:
            return None
        formats[entry] = packing
        natives.add(ALGORITHMS[algorithm][0])
        about.append(_in_words(algorithm, packing))
    if not formats:
        return None
    settings = {name: formats[repr(entry)] for name, entry in layers.data.items()}
    native = natives.pop() if len(natives) == 1 else ""
    labels = " and ".join(dict.fromkeys(about))
    return Scheme(f"ModelOpt {labels}", AS_IT_IS, keeps=(), overrides=by_module(settings), native=native)


def _named(config: Config) -> str:
    """The quant_algo in capitals, which some exports write small."""
    algorithm = config.get("quant_algo", default=None)
    return algorithm.upper() if isinstance(algorithm, str) else ""


def _packing(config: Config, algorithm: str, usual: Any = None) -> Packing | None:
    """The format of an algorithm with the group size that is stated; None for one that is not known."""
    size = config.optional_size("group_size")
    group = None if size is None else size.value
    if group is None and isinstance(usual, int):
        group = usual
    return ALGORITHMS[algorithm][1](group) if algorithm in ALGORITHMS else None


def _in_words(algorithm: str, packing: Packing) -> str:
    """`NVFP4 in groups of 16`."""
    return f"{algorithm} {grouped(packing.group_size)}"
