"""ConvNeXt: stages of convolved layers on a grid that becomes coarser and wider."""

from __future__ import annotations

from itertools import accumulate

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.networks import activation, layernorm
from archcli.load.huggingface.weights.map import Rule, Weights
from archcli.load.huggingface.whole.vit_like import UNREAD, labels, patches

EPS = 1e-6
"""That of all norms but the last, which no key states."""


def _stages(config: Config) -> tuple[ConfigValue[list[int]], ConfigValue[list[int]]]:
    """(widths, depths) of the stages."""
    widths, depths = (config.value(name) for name in ("hidden_sizes", "depths"))
    for name, entry in (("hidden_sizes", widths), ("depths", depths)):
        if not isinstance(entry.value, list | tuple) or len(entry.value) != config.size("num_stages").value:
            what = f"{name} must have an entry for each of num_stages, not {short_repr(entry.value)}"
            raise config.error(what, at=entry.place)
        for size in entry.value:
            config.as_size(name, entry.derive(size))
    config.sizes.update(("hidden_sizes", "depths"))
    return widths.derive([*widths.value]), depths.derive([*depths.value])


def _convnext(config: Config) -> Mapped:
    """ConvNeXt: a mean of all places is what is classified."""
    config.only_architectures("ConvNextModel", "ConvNextForImageClassification")
    config.ignore(*UNREAD)
    widths, depths = _stages(config)
    norm, scale = layernorm(EPS), config.number("layer_scale_init_value")
    function = activation(config, "hidden_act")
    groups = []
    for i, (width, depth) in enumerate(zip(widths.value, depths.value, strict=True)):
        if i:
            groups.append({"n_layers": 1, "layer": {"kind": "downsample", "out": widths.derive(width)}})
        ffn = {"kind": "mlp", "d_ff": widths.derive(4 * width), "activation": function, "bias": True}
        layer = {"kind": "convolved", "ffn": ffn, **({"layer_scale": scale} if scale.value > 0 else {})}
        groups.append({"n_layers": depths.derive(depth), "layer": layer})
    last = layernorm(config.number("layer_norm_eps"))
    is_classifier = config.architecture.endswith("Classification")
    return {
        "kind": "media_encoder",
        "d_model": widths.derive(widths.value[0]),
        "norm": norm,
        "front_end": patches(config, class_token=False, position="none", norm=norm, keeps_grid=True),
        "final_norm": False,
        "pooling": {"kind": "mean", "norm": last},
        **(labels(config) if is_classifier else {}),
        "groups": groups,
    }


def _weights(config: Config) -> Weights:
    """Names of the tensors: a stage of ours follows a layer that makes the grid coarser."""
    _, depths = _stages(config)
    base = "[convnext.]"
    names: dict[str, Rule] = {}
    firsts = accumulate(depths.value, lambda first, depth: first + depth + 1, initial=0)
    for stage, (first, depth) in enumerate(zip(firsts, depths.value, strict=False)):
        theirs = f"{base}encoder.stages.{stage}"
        if stage:
            names[f"{theirs}.downsampling_layer.0.*"] = f"layers.{first - 1}.norm.*"
            names[f"{theirs}.downsampling_layer.1.*"] = f"layers.{first - 1}.reduce.*"
        for i in range(depth):
            layer, ours = f"{theirs}.layers.{i}", f"layers.{first + i}"
            names |= {
                f"{layer}.dwconv.*": f"{ours}.conv.*",
                f"{layer}.layernorm.*": f"{ours}.ffn_norm.*",
                f"{layer}.pwconv1.*": f"{ours}.ffn.up_proj.*",
                f"{layer}.pwconv2.*": f"{ours}.ffn.down_proj.*",
                f"{layer}.layer_scale_parameter": f"{ours}.ffn_layer_scale.scale",
            }
    return {
        f"{base}embeddings.patch_embeddings.*": "front_end.patches.*",
        f"{base}embeddings.layernorm.*": "front_end.norm.*",
        **names,
        f"{base}layernorm.*": "pooling.norm.*",
        "classifier.*": "classifier.*",
    }


FAMILIES = {
    "convnext": Family(
        "ConvNeXt: ConvNextConfig, ConvNextModel, ConvNextForImageClassification.", _convnext, _weights
    ),
}
