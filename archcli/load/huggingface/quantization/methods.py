"""Readers of a quantization_config by its quant_method, and the method of a file that names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.load.huggingface.quantization import compressed, fp8, groups, modelopt, packed, tensor_types
from archcli.load.huggingface.quantization.scheme import Reader

METHODS: Mapping[str, Reader] = {
    "aqlm": groups.aqlm,
    "auto-round": packed.auto_round,
    "awq": packed.awq,
    "bitnet": groups.bitnet,
    "bitsandbytes": groups.bitsandbytes,
    "chatglm": groups.chatglm,
    "compressed-tensors": compressed.compressed_tensors,
    "eetq": groups.eetq,
    "exl2": packed.exl2,
    "exl3": packed.exl3,
    "fbgemm_fp8": fp8.fbgemm_fp8,
    "fp8": fp8.fp8,
    "fp_quant": groups.fp_quant,
    "gemma": groups.gemma,
    "gptq": packed.gptq,
    "higgs": groups.higgs,
    "hqq": groups.hqq,
    "metal": groups.metal,
    "mlc": groups.mlc,
    "mlx": groups.mlx,
    "modelopt": modelopt.modelopt,
    "mxfp4": fp8.mxfp4,
    "mxfp8": fp8.mxfp8,
    "quanto": groups.quanto,
    "quark": tensor_types.quark,
    "torchao": tensor_types.torchao,
    "w8a8_fp8": fp8.w8a8,
    "w8a8_int8": fp8.w8a8,
}
"""Readers by `quant_method`."""

SPELLINGS = {
    **dict.fromkeys(("intel/auto-round", "auto_round", "autoround"), "auto-round"),
    **dict.fromkeys(("modelopt_fp4", "modelopt_fp8", "modelopt_mixed", "modelopt_mxfp8"), "modelopt"),
    **dict.fromkeys(("deepseek_v4_fp8", "fp8_e4m3"), "fp8"),
    "gptq_marlin": "gptq",
    "awq_marlin": "awq",
    "fbgemm": "fbgemm_fp8",
    "compressed_tensors": "compressed-tensors",
}
"""Methods by other spellings, as engines and exports write them."""


def method_of(data: Mapping[str, Any]) -> str:
    """The quant_method of a file, else the one implied by its keys; empty for an unknown one."""
    method = data.get("quant_method")
    if isinstance(method, str):
        return SPELLINGS.get(method.lower(), method.lower())
    if {"load_in_4bit", "load_in_8bit"}.intersection(data):
        return "bitsandbytes"
    if {"quant_algo", "quantization"}.intersection(data):
        return "modelopt"
    if "config_groups" in data:
        return "compressed-tensors"
    return "gptq" if {"bits", "group_size", "desc_act"} <= data.keys() else ""
