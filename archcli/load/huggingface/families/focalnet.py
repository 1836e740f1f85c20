"""FocalNet: focal modulation on a grid, which becomes coarser and wider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import CLASSIFIER, convolution, size_list, stem, steps_layer
from archcli.load.huggingface.whole.vit_like import UNREAD, labels

PATCH = "patch_size"


class FocalStage(NamedTuple):
    """A stage: its layers, their width, their smallest kernel and their levels."""

    depth: int
    width: int
    window: int
    levels: int


def _stages(config: Config) -> list[FocalStage]:
    depths, width = size_list(config, "depths"), config.size("embed_dim").value
    lists = [size_list(config, name) for name in ("focal_windows", "focal_levels")]
    for name, entries in zip(("focal_windows", "focal_levels"), lists, strict=True):
        if len(entries) < len(depths):
            what = f"{name} has {len(entries)} entries, and there are {len(depths)} stages"
            raise config.error(what, at=config.place(name))
    return [
        FocalStage(depth, width << i, window, levels)
        for i, (depth, window, levels) in enumerate(zip(depths, *lists, strict=False))
    ]


def _layer(config: Config, norm: Mapped, stage: FocalStage) -> Mapped:
    """A layer of a stage: modulation and a network, each normalized before or after."""
    if stage.window % 2 == 0:
        what = f"focal_windows: a kernel of {stage.window} places is not supported"
        raise config.error(what, "an even one has no middle", config.place("focal_windows"))
    width = config.size("embed_dim").derive(int(stage.width * config.number("mlp_ratio").value))
    if width.value < 1:
        raise config.error("mlp_ratio leaves no width", at=config.place("mlp_ratio"))
    modulation: dict[str, Any] = {"kind": "focal", "side": stage.window, "levels": stage.levels}
    modulation |= {"divides": True} if config.flag("normalize_modulator").value else {}
    modulation |= {"norm": norm} if config.flag("use_post_layernorm_in_modulation").value else {}
    layer: dict[str, Any] = {
        "kind": "norm_after" if config.flag("use_post_layernorm").value else "pre_norm",
        "mixer": modulation,
        "ffn": hf.mlp(config, width, "hidden_act"),
    }
    scale = config.number("layerscale_value")
    if config.flag("use_layerscale").value:
        if scale.value <= 0:
            raise config.error(f"layerscale_value {scale} is not supported", "state one above 0", scale.place)
        layer["layer_scale"] = scale
    return layer


def _patch(
    config: Config, norm: Mapped, width: int, side: int, kernels: tuple[int, int, int]
) -> list[Mapped]:
    """Patches of a grid filled up to whole ones; convolved ones overlap by kernel, stride and padding."""
    overlaps = config.flag("use_conv_embed").value
    kernel, stride, padding = kernels if overlaps else (side, side, 0)
    step = convolution(width, kernel, stride=stride, bias=True, norm=norm)
    return [{"kind": "fill", "multiple": side}, {**step, "padding": padding}]


def _focalnet(config: Config) -> Mapped:
    """FocalNet: the base model and its classifier."""
    config.only_architectures("FocalNetModel", f"FocalNet{CLASSIFIER}")
    config.ignore(*UNREAD, "hidden_sizes")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    stages, parts = _stages(config), []
    for i, stage in enumerate(stages):
        if i:
            steps = _patch(config, norm, stage.width, 2, (3, 2, 1))
            parts.append({"n_layers": 1, "layer": steps_layer(steps)})
        parts.append({"n_layers": stage.depth, "layer": _layer(config, norm, stage)})
    first = _patch(config, norm, stages[0].width, config.size(PATCH).value, (7, 4, 2))
    return {
        "kind": "media_encoder",
        "d_model": config.size("embed_dim"),
        "norm": norm,
        "front_end": stem(config, first),
        "pooling": {"kind": "mean"},
        **(labels(config) if config.architecture.endswith(CLASSIFIER) else {}),
        "groups": parts,
    }


LAYER = {
    "norm1.*": "mixer_norm.*",
    "norm2.*": "ffn_norm.*",
    "modulation.projection_in.*": "mixer.in_proj.*",
    "modulation.projection_out.*": "mixer.out_proj.*",
    "modulation.projection_context.bias": "mixer.context_proj.bias",
    "modulation.layernorm.*": "mixer.norm.*",
    "modulation.focal_layers.*.0.weight": "mixer.context*.weight",
    "gamma_1": "mixer_layer_scale.scale",
    "gamma_2": "ffn_layer_scale.scale",
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
}


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base = "[focalnet.]"
    return {
        f"{base}embeddings.patch_embeddings.projection.*": "front_end.steps.1.conv.*",
        f"{base}embeddings.norm.*": "front_end.steps.1.norm.*",
        **dict(_layer_names(config, f"{base}encoder.stages")),
        f"{base}layernorm.*": "final_norm.*",
        "classifier.*": "classifier.*",
    }


def _layer_names(config: Config, base: str) -> Iterator[tuple[str, Rule]]:
    """(theirs, ours) of every layer, and of the patches between stages."""
    first = 0
    for number, stage in enumerate(_stages(config)):
        if number:
            before = f"{base}.{number - 1}.downsample"
            yield f"{before}.projection.*", f"layers.{first}.steps.1.conv.*"
            yield f"{before}.norm.*", f"layers.{first}.steps.1.norm.*"
            first += 1
        for i in range(stage.depth):
            theirs, ours = f"{base}.{number}.layers.{i}", f"layers.{first + i}"
            yield from ((f"{theirs}.{name}", f"{ours}.{part}") for name, part in LAYER.items())
            kernel = Parts((f"{ours}.mixer.context_proj.weight",), tapped=2)
            yield f"{theirs}.modulation.projection_context.weight", kernel
        first += stage.depth


FAMILIES = {
    "focalnet": Family("FocalNet: FocalNetConfig, FocalNetModel and its classifier.", _focalnet, _names),
}
