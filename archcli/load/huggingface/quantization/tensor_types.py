"""Forms that name the type of each tensor: torchao's configs and AMD's Quark."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.quantization.scheme import (
    AS_IT_IS,
    FP16,
    FP32,
    MXFP4,
    MXFP8,
    NVFP4,
    TABLES,
    Scheme,
    block_size,
    by_module,
    entries,
    kept_or_head,
)
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import Packing

CONFIG = "config"
EVERY = "_default"
MODULES = ("module_fqn_to_config", "fqn_to_config")


def torchao(config: Config) -> Scheme | None:
    """The format of `quant_type`: a name, a config with settings, or one for each module by name."""
    setting = config.get("quant_type", default=None)
    if isinstance(setting, str):
        settings, kind = config.inner("quant_type_kwargs", {}), setting
    else:
        settings, kind = _of_config(config.inner("quant_type", {}).inner("default", {}))
    config.ignore("untie_embedding_weights", "quant_type", "quant_type_kwargs")
    kept, keeps = kept_or_head(config)
    tables = ("embedding",) if config.get("include_input_output_embeddings", default=False) is True else ()
    modules = next((settings.inner(key, {}) for key in MODULES if key in settings.data), None)
    if modules is None:
        usual = _torchao_packing(kind, settings)
        about = f"torchao, {kind}"
        return usual and Scheme(about, usual, kept, ("router",) if tables else keeps, tables=tables)
    packings = {name: _of_module(modules, name) for name in modules.data}
    if None in packings.values():
        return None
    known = {name: packing for name, packing in packings.items() if packing is not None}
    usual = known.pop(EVERY, AS_IT_IS)
    widths = dict.fromkeys(str(it.bits) for it in (usual, *known.values()) if it != AS_IT_IS)
    about = f"torchao, {' and '.join(widths)} bits"
    # the usual config is of linear layers, which routers are none of; a table is packed where it is named
    plain = dict.fromkeys(({*TABLES} - {*tables}) | {"router"}, AS_IT_IS)
    return Scheme(about, usual, kept, (), overrides=by_module(known), tables=TABLES, of_groups=plain)


def _of_config(config: Config) -> tuple[Config, str]:
    """The settings of a config of torchao's, and its name without its ending."""
    kind = config.get("_type", default="")
    config.ignore("_version")
    return config.inner("_data", {}), kind.removesuffix("Config") if isinstance(kind, str) else ""


def _of_module(modules: Config, name: str) -> Packing | None:
    """The format of a module; unquantized where its config is null."""
    if modules.data[name] is None:
        return AS_IT_IS
    settings, kind = _of_config(modules.inner(name, {}))
    return _torchao_packing(kind, settings)


def _torchao_packing(kind: str, settings: Config) -> Packing | None:
    """The format of weights by the config's name, in snake case or as the class is called.

    torchao/quantization/quant_api.py; Int4Tensor has a scale and a zero point of 16 bits for a group.
    """
    name = kind.replace("_", "").lower()
    rows = settings.data.get("granularity")
    of_tensor = rows is not None and "tensor" in str(rows).lower()
    layouts = {
        "int4weightonly": Packing(4, settings.size("group_size", default=128).value, FP16, FP16),
        "int8weightonly": Packing(8, "row", FP16),
        "int8dynamicactivationint8weight": Packing(8, "row", FP16),
        "float8weightonly": Packing(8, "row", FP32),
        "float8dynamicactivationfloat8weight": Packing(8, "tensor" if of_tensor else "row", FP32),
        "float8dynamicactivationint4weight": Packing(4, 128, FP16, FP16),
        **dict.fromkeys(("nvfp4inference", "nvfp4weightonly", "nvfp4dynamicactivationnvfp4weight"), NVFP4),
    }
    for key in ("group_size", "granularity", "set_inductor_config", "layout", "int4_packing_format"):
        settings.ignore(key)
    return layouts.get(name)


def quark(config: Config) -> Scheme | None:
    """The weights of `global_quant_config`, or those of `layer_quant_config` by a pattern of names.

    quark/torch/export/nn/modules/qparamslinear.py of AMD's Quark.
    """
    usual = _quark_packing(config.inner("global_quant_config", {}))
    modules = config.inner("layer_quant_config", {})
    packings = {name: _quark_packing(modules.inner(name, {})) for name in modules.data}
    if usual is None or None in packings.values() or config.data.get("layer_type_quant_config"):
        return None
    config.ignore("export", "algo_config", "quant_mode", "softmax_quant_spec", "version")
    known = {name: packing for name, packing in packings.items() if packing is not None}
    about = " and ".join(dict.fromkeys(_quark_words(config)))
    if not about:
        return None
    kept = Patterns(entries(config, "exclude"), globs=True)
    overrides = by_module(known, globs=True)
    return Scheme(f"Quark, {about}", usual, kept, ("router",), overrides=overrides)


def _quark_words(config: Config) -> Iterator[str]:
    groups = config.inner("layer_quant_config", {})
    for settings in (
        config.inner("global_quant_config", {}),
        *(groups.inner(name, {}) for name in groups.data),
    ):
        dtype = _weight(settings).get("dtype", default=None)
        if dtype is not None:
            yield str(dtype)


def _weight(config: Config) -> Config:
    """The settings of the weight as it is stored: the last of several steps."""
    setting = config.data.get("weight")
    steps = setting if isinstance(setting, list) else [setting]
    last = steps[-1] if steps and isinstance(steps[-1], dict) else {}
    return Config(last, config.places)


def _quark_packing(config: Config) -> Packing | None:
    """The format of a weight: its type, and the values that share a scale."""
    weight = _weight(config)
    dtype, scheme = weight.get("dtype", default=None), weight.get("qscheme", default=None)
    if dtype is None:
        return AS_IT_IS
    inputs = config.data.get("input_tensors")
    static = isinstance(inputs, dict) and inputs.get("is_dynamic") is False
    if scheme == "per_block":
        return _quark_blocks(weight, str(dtype))
    group = weight.optional_size("group_size")
    if dtype in {"fp4", "mxfp4", "mx"} or weight.get("scale_format", default=None) == "e8m0":
        block = MXFP4 if "4" in str(dtype) else MXFP8
        bits = {"fp6": 6, "mxfp6": 6}.get(str(dtype)[:5].removesuffix("_"), block.bits)
        return block._replace(bits=bits, group_size=32 if group is None else group.value)
    bits = next((n for n in (2, 3, 4, 8) if str(dtype).removeprefix("u").startswith(f"int{n}")), 0)
    bits = 8 if str(dtype).startswith("fp8") else bits
    widths: dict[str, int | str] = {"per_tensor": "tensor", "per_channel": "row"}
    widths |= {} if group is None else {"per_group": group.value}
    width = widths.get(scheme) if isinstance(scheme, str) else None
    if not bits or width is None:
        return None
    asymmetric = weight.get("symmetric", default=True) is False
    of_group = FP16 if scheme == "per_group" else FP32
    return Packing(bits, width, of_group, bits if asymmetric else 0, matrix_bits=FP32 if static else 0)


def _quark_blocks(weight: Config, dtype: str) -> Packing | None:
    """The format of floats of 8 bits with a scale for each block of rows and columns."""
    block = block_size(weight.get("block_size", default=None))
    if block is None or not dtype.startswith("fp8"):
        return None
    rows, columns = block
    in_bytes = "e8m0" in f"{weight.data.get('scale_type')} {weight.data.get('scale_format')}"
    return Packing(8, columns, 8 if in_bytes else FP32, group_rows=rows)
