"""ConvNeXt 1 and 2: stages of convolved layers on a grid that becomes coarser and wider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.vit_like import UNREAD, flat, labels, patches, sides

EPS = 1e-6
"""That of all norms but the last, which no key states."""


def _stages(config: Config) -> tuple[ConfigValue[list[int]], ConfigValue[list[int]]]:
    """(widths, depths) of the stages; a class without num_stages has one for each width."""
    widths, depths = (config.value(name) for name in ("hidden_sizes", "depths"))
    stages = config.get("num_stages", default=None)
    for name, entry in (("hidden_sizes", widths), ("depths", depths)):
        if not isinstance(entry.value, list | tuple) or len(entry.value) != (stages or len(widths.value)):
            what = f"{name} must have an entry for each stage, not {hf.short_repr(entry.value)}"
            raise config.error(what, at=entry.place)
        for size in entry.value:
            config.as_size(name, entry.derive(size))
    config.sizes.update(("hidden_sizes", "depths"))
    return widths.derive([*widths.value]), depths.derive([*depths.value])


def _whole(config: Config, front_end: Mapped, eps: Any, layer: Mapped, ffn: Mapped) -> Mapped:
    """Stages of layers; `eps` is that of all norms but the last, `layer` and `ffn` are further fields."""
    config.ignore(*UNREAD)
    widths, depths = _stages(config)
    norm, function = hf.layernorm(eps), hf.activation(config, "hidden_act")
    groups = []
    for i, (width, depth) in enumerate(zip(widths.value, depths.value, strict=True)):
        if i:
            groups.append({"n_layers": 1, "layer": {"kind": "downsample", "out": widths.derive(width)}})
        network = {"kind": "mlp", "d_ff": widths.derive(4 * width), "activation": function, "bias": True}
        stage = {"kind": "convolved", "ffn": {**network, **ffn}, **layer}
        groups.append({"n_layers": depths.derive(depth), "layer": stage})
    last = hf.layernorm(config.number("layer_norm_eps"))
    is_classifier = config.architecture.endswith("Classification")
    return {
        "kind": "media_encoder",
        "d_model": widths.derive(widths.value[0]),
        "norm": norm,
        "front_end": {**front_end, "norm": norm},
        "final_norm": False,
        "pooling": {"kind": "mean", "norm": last},
        **(labels(config) if is_classifier else {}),
        "groups": groups,
    }


GRID: Mapped = {"class_token": False, "position": "none", "keeps_grid": True}


def _scaled(config: Config) -> Mapped:
    """Trained numbers of each channel, where they start above 0."""
    scale = config.number("layer_scale_init_value")
    return {"layer_scale": scale} if scale.value > 0 else {}


def _convnext(config: Config) -> Mapped:
    """ConvNeXt: a mean of all places is what is classified."""
    config.only_architectures("ConvNextModel", "ConvNextForImageClassification")
    return _whole(config, patches(config, **GRID), EPS, _scaled(config), {})


def _convnextv2(config: Config) -> Mapped:
    """ConvNeXt V2: lengths of channels are normalized within each network."""
    config.only_architectures("ConvNextV2Model", "ConvNextV2ForImageClassification")
    response = {"inner_norm": {"kind": "global_response", "eps": EPS}}
    return _whole(config, patches(config, **GRID), EPS, {}, response)


def _dinov3(config: Config) -> Mapped:
    """DINOv3 distilled to ConvNeXt."""
    config.only_architectures("DINOv3ConvNextModel")
    front_end = {
        "kind": "patches",
        "image_size": sides(config, "image_size"),
        "patch_size": [4, 4],
        "in_channels": config.size("num_channels"),
        **GRID,
    }
    scaled = _scaled(config)
    if not scaled:
        what = "layer_scale_init_value must be above 0: its class has the numbers all the same"
        raise config.error(what, at=config.place("layer_scale_init_value"))
    return _whole(config, front_end, config.number("layer_norm_eps"), scaled, {})


def _layers(config: Config) -> Iterator[tuple[int, int | None, str]]:
    """(stage, number there, ours) of each layer; None is the one that makes the grid coarser."""
    first = 0
    for stage, depth in enumerate(_stages(config)[1].value):
        if stage:
            yield stage, None, f"layers.{first - 1}"
        yield from ((stage, i, f"layers.{first + i}") for i in range(depth))
        first += depth + 1


def _weights(config: Config, base: str = "[convnext.]") -> Weights:
    """Names of the tensors: a stage of ours follows a layer that makes the grid coarser."""
    names: dict[str, Rule] = {}
    for stage, i, ours in _layers(config):
        theirs = f"{base}encoder.stages.{stage}"
        layer = f"{theirs}.layers.{i}"
        if i is None:
            names[f"{theirs}.downsampling_layer.0.*"] = f"{ours}.norm.*"
            names[f"{theirs}.downsampling_layer.1.*"] = f"{ours}.reduce.*"
            continue
        names |= {
            f"{layer}.dwconv.*": f"{ours}.conv.*",
            f"{layer}.layernorm.*": f"{ours}.ffn_norm.*",
            f"{layer}.pwconv1.*": f"{ours}.ffn.up_proj.*",
            f"{layer}.grn.*": flat(f"{ours}.ffn.inner_norm.*", 3),
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


def _v2_weights(config: Config) -> Weights:
    """Names of ConvNeXt V2's tensors."""
    return _weights(config, "[convnextv2.]")


def _dinov3_weights(config: Config) -> Weights:
    """Names of DINOv3's tensors."""
    names: dict[str, Rule] = {
        "[model.]stages.0.downsample_layers.0.*": "front_end.patches.*",
        "[model.]stages.0.downsample_layers.1.*": "front_end.norm.*",
        "layer_norm.*": "pooling.norm.*",
    }
    for stage, i, ours in _layers(config):
        theirs = f"[model.]stages.{stage}"
        layer = f"{theirs}.layers.{i}"
        if i is None:
            names[f"{theirs}.downsample_layers.0.*"] = f"{ours}.norm.*"
            names[f"{theirs}.downsample_layers.1.*"] = f"{ours}.reduce.*"
            continue
        names |= {
            f"{layer}.depthwise_conv.*": f"{ours}.conv.*",
            f"{layer}.layer_norm.*": f"{ours}.ffn_norm.*",
            f"{layer}.pointwise_conv1.*": f"{ours}.ffn.up_proj.*",
            f"{layer}.pointwise_conv2.*": f"{ours}.ffn.down_proj.*",
            f"{layer}.gamma": f"{ours}.ffn_layer_scale.scale",
        }
    return names


FAMILIES = {
    "convnext": Family(
        "ConvNeXt: ConvNextConfig, ConvNextModel, ConvNextForImageClassification.", _convnext, _weights
    ),
    "convnextv2": Family(
        "ConvNeXt V2: ConvNextV2Config, ConvNextV2Model and its classifier.", _convnextv2, _v2_weights
    ),
    "dinov3_convnext": Family(
        "DINOv3's ConvNeXt: DINOv3ConvNextConfig, DINOv3ConvNextModel.",
        _dinov3,
        _dinov3_weights,
        defaults={"hidden_sizes": [96, 192, 384, 768], "depths": [3, 3, 9, 3]},
    ),
}
