"""Forms whose values lie in words of 32 bits: GPTQ, AWQ, AutoRound; and EXL2 and EXL3.

GPTQ: AutoGPTQ and GPTQModel, `qweight`, `qzeros`, `scales`, `g_idx`. AWQ: AutoAWQ's WQLinear_GEMM. AutoRound:
the same tensors without `g_idx` (auto_round_extension/torch/qlinear_torch.py).
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP16,
    FP32,
    HEAD,
    INDEX,
    MOST_SETTINGS,
    NVFP4,
    Scheme,
    averaging,
    by_module,
    entries,
    group_of,
    grouped,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing


def gptq(config: Config) -> Scheme | None:
    """Values and zero points of `bits`, a scale of fp16 a group, and the group of each input."""
    bits, group = config.size("bits").value, group_of(config, "group_size")
    layout = config.get("checkpoint_format", "format", default="gptq")
    if layout not in ("gptq", "gptq_v2", "marlin"):
        return None
    # the layout of Marlin's kernels has neither zero points nor g_idx
    marlin = layout == "marlin" or bool(config.get("is_marlin_format", default=False))
    packing = Packing(bits, group, FP16, 0 if marlin else bits, input_bits=0 if marlin else INDEX)
    only = _modules_in_block(config)
    if len(config.inner("dynamic", {}).data) > MOST_SETTINGS:
        return None
    # `lm_head: true` packs the head as well; left out, it stays as it is
    return Scheme(
        f"GPTQ, {bits} bits {grouped(group)}",
        packing if only is None else AS_IT_IS,
        Patterns(entries(config, "modules_to_not_convert"), endings=True),
        ("router",) if config.get("lm_head", default=False) is True else HEAD,
        overrides=(*_dynamic(config, packing), *(() if only is None else ((only, packing),))),
        layers_only=config.get("lm_head", default=False) is not True,
        in_words=True,
    )


def _modules_in_block(config: Config) -> Patterns | None:
    """The modules of a layer that are packed, as a file lists them by step of calibration; None: all."""
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
    # gemv stores the same words the other way round
    if not isinstance(version, str) or version.lower() not in ("gemm", "gemv", "exllama", "ipex"):
        return None
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    packing = Packing(bits, group, FP16, bits)
    return Scheme(f"AWQ, {bits} bits {grouped(group)}", packing, kept, layers_only=True, in_words=True)


def auto_round(config: Config) -> Scheme | None:
    """The tensors of GPTQ without `g_idx`, or those of AWQ; or floats in blocks, as `data_type` says.

    `extra_config` has settings of single modules. auto_round/export of github.com/intel/auto-round.
    """
    kind = config.get("data_type", default="int")
    layout = config.get("packing_format", default="auto_round:auto_gptq")
    config.ignore("act_bits", "act_data_type", "act_group_size", "act_dynamic", "act_sym", "backend")
    packing = _of_auto_round(config, kind, layout)
    if packing is None:
        return None
    modules = config.inner("extra_config", {})
    settings = {}
    for name in modules.data:
        of_module = _of_auto_round(modules.inner(name, config.data), kind, layout)
        if of_module is None:
            return None
        settings[name] = of_module
    named_head = any("lm_head" in name and packing != AS_IT_IS for name, packing in settings.items())
    about = f"AutoRound, {packing.bits} bits {grouped(packing.group_size)}"
    return Scheme(
        about,
        packing,
        keeps=("router",) if named_head else HEAD,
        overrides=by_module(settings, endings=True),
        layers_only=not named_head,
        in_words=kind == "int",
    )


def _of_auto_round(config: Config, kind: object, layout: object) -> Packing | None:
    """How a module is packed; AS_IT_IS for 16 bits, None where the format is not known."""
    bits = config.size("bits", default=4).value
    if bits >= FP16:
        return AS_IT_IS
    # 16 where a module states its bits alone, and its type as float
    kind = config.get("data_type", default=kind)
    group = group_of(config, "group_size")
    if not isinstance(kind, str) or not isinstance(layout, str):
        return None
    if kind.startswith("int") and layout.endswith(("gptq", "awq")):
        return Packing(bits, group, FP16, bits)
    if kind.startswith(("mx_fp", "mxfp")):
        return Packing(bits, 32, 8)
    if kind.startswith(("nv_fp", "nvfp")):
        static = config.get("act_bits", default=16) < FP16
        return NVFP4._replace(matrix_bits=FP32 if static else 0)
    return None


def exl2(config: Config) -> Scheme:
    """EXL2: `bits` on average over the layers' matrices, which differ, and `head_bits` for the head.

    exllamav2/conversion/optimize.py searches the bits of each matrix for that sum.
    """
    return _averaged(config, "exl2", averaging(config.number("bits").value))


def exl3(config: Config) -> Scheme | None:
    """EXL3: tiles of 16 x 16 values of `bits`, and signs of fp16 for each input and each output.

    exllamav3/modules/quant/exl3.py: `trellis`, `suh`, `svh`. None where the rest has a form of its source.
    """
    if any(config.data.get(key) for key in OF_SOURCE) or config.data.get("module_include"):
        return None
    bits = config.number("bits").value
    usual = averaging(bits) if bits % 1 else Packing(int(bits), "row", FP16, input_bits=FP16)
    if config.get("scope", default=None) == "routed_experts_only":
        return Scheme(f"EXL3, {bits:g} bits, of experts alone", usual, only=("experts",))
    return _averaged(config, "exl3", usual)


OF_SOURCE = ("base_quantization_config", "original_quantization_config", "non_routed_dtype_policy")
"""Keys by which exports of experts alone say that all else is stored as it was."""


def _averaged(config: Config, method: str, usual: Packing) -> Scheme:
    bits = config.number("bits").value
    head = config.number("head_bits", default=bits).value
    of_head = AS_IT_IS if head >= FP16 else averaging(head)
    about = f"{method.upper()}, {bits:g} bits on average, {head:g} of the head"
    return Scheme(about, usual, keeps=("router",), of_groups={"lm_head": of_head})
