"""ViTDet's encoder: a vision transformer on a grid, with windows and convolutions in some layers."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import convolution, stem, steps_layer
from archcli.load.huggingface.whole.vit_like import UNREAD, qkv_biases, sides

CLASS_PLACE = "class_position"
"""The position of a class token that is not there: a row of the table, which no pass reads."""
RESIDUAL_EPS = 1e-6
"""Of the norms between convolutions, which no key states."""


def _indices(config: Config, name: str) -> list[int]:
    """A list of layers."""
    entry = config.value(name, default=[])
    if not isinstance(entry.value, list | tuple) or not all(type(index) is int for index in entry.value):
        what = f"{name} must be a list of layers, not {hf.short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    return [*entry.value]


def _grid(config: Config) -> list[int]:
    """Rows and columns of the usual image; the table of positions must be of as many."""
    patch = sides(config, "patch_size").value
    grids = [
        [side // step for side, step in zip(sides(config, name).value, patch, strict=True)]
        for name in ("image_size", "pretrain_image_size")
    ]
    if min(grids[0]) < 1:
        raise config.error("image_size is below patch_size", at=config.place("image_size"))
    if grids[0] != grids[1] or grids[0][0] != grids[0][1]:
        what = "pretrain_image_size: positions of another grid, or of no square, are not read"
        raise config.error(what, "state image_size for both", config.place("pretrain_image_size"))
    return grids[0]


def _layer(config: Config, norm: Mapped, *, windowed: bool) -> Mapped:
    """A layer whose places see all others, or those of their window."""
    heads, width = config.size("num_attention_heads"), config.size("hidden_size")
    side = config.count("window_size").value if windowed else 0
    relative = config.flag("use_relative_position_embeddings").value
    kind = "grid_axes" if relative else "grid_window" if side else "reduced_grid"
    attention: dict[str, Any] = {"kind": kind, "n_heads": heads, "bias": qkv_biases(config), "causal": False}
    attention |= {"side": side} if side else {}
    attention |= {"differences": False} if kind == "grid_window" else {}
    d_ff = width.derive(int(width.value * config.number("mlp_ratio").value))
    if d_ff.value < 1:
        raise config.error("mlp_ratio leaves no width", at=config.place("mlp_ratio"))
    return {
        "kind": "pre_norm",
        "norm": norm,
        "attention": attention,
        "ffn": hf.mlp(config, d_ff, "hidden_act"),
    }


def _bottleneck(config: Config) -> Mapped:
    """Three convolutions, half as wide between them, and x added."""
    width, norm = config.size("hidden_size").value, hf.layernorm(RESIDUAL_EPS)
    if width % 2:
        raise config.error(f"hidden_size {width} has no half", at=config.place("hidden_size"))
    unit = {"norm": norm, "activation": hf.activation(config, "hidden_act")}
    steps = [convolution(width // 2, 1, **unit), convolution(width // 2, 3, **unit)]
    return steps_layer([*steps, convolution(width, 1, norm=norm)], residual=True)


def _vitdet(config: Config) -> Mapped:
    """ViTDet's encoder, whose answer is the grid of the last layer."""
    config.only_architectures("VitDetModel")
    config.ignore(*UNREAD, "dropout_prob")
    grid, patch = _grid(config), sides(config, "patch_size").value
    if patch[0] != patch[1]:
        raise config.error("patch_size of two lengths is not supported", at=config.place("patch_size"))
    placed, width = config.flag("use_absolute_position_embeddings").value, config.size("hidden_size")
    if config.flag("use_relative_position_embeddings").value and not placed:
        what = "use_relative_position_embeddings without absolute ones is not supported"
        raise config.error(what, at=config.place("use_relative_position_embeddings"))
    norm = hf.layernorm(config.number("layer_norm_eps"))
    step = convolution(width.value, patch[0], stride=patch[0], bias=True)
    steps: list[Mapped] = [{**step, "padding": 0}]
    if placed:
        steps.append({"kind": "positions", "number": grid[0] * grid[1]})
    windows, residuals = (_indices(config, f"{name}_block_indices") for name in ("window", "residual"))
    parts: list[Mapped] = []
    for i in range(config.layers()):
        parts.append({"n_layers": 1, "layer": _layer(config, norm, windowed=i in windows)})
        if i in residuals:
            parts.append({"n_layers": 1, "layer": _bottleneck(config)})
    return {
        "kind": "media_encoder",
        "d_model": width,
        "norm": norm,
        "front_end": stem(config, steps),
        "final_norm": False,
        **({"unread": {CLASS_PLACE: [1, width.value]}} if placed else {}),
        "groups": parts,
    }


LAYER: dict[str, str] = {
    "norm1.*": "attention_norm.*",
    "norm2.*": "ffn_norm.*",
    "attention.proj.*": "attention.o_proj.*",
    "attention.rel_pos_h": "attention.axis_bias.rows",
    "attention.rel_pos_w": "attention.axis_bias.columns",
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
}


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base, step = "[vitdet.]", "front_end.steps"
    table = (f"{CLASS_PLACE}.weight", f"{step}.1.table.weight")
    names: dict[str, Rule] = {
        f"{base}embeddings.position_embeddings": Parts(table, flat=1),
        f"{base}embeddings.projection.*": f"{step}.0.conv.*",
    }
    residuals, number = _indices(config, "residual_block_indices"), 0
    for i in range(config.layers()):
        theirs, ours = f"{base}encoder.layer.{i}", f"layers.{number}"
        names |= {f"{theirs}.{name}": f"{ours}.{part}" for name, part in LAYER.items()}
        names[f"{theirs}.attention.qkv.*"] = Parts(tuple(name.replace("layers.*", ours) for name in hf.FUSED))
        number += 1
        if i in residuals:
            for k in range(3):
                names[f"{theirs}.residual.conv{k + 1}.*"] = f"layers.{number}.steps.{k}.conv.*"
                names[f"{theirs}.residual.norm{k + 1}.*"] = f"layers.{number}.steps.{k}.norm.*"
            number += 1
    return names


FAMILIES = {
    "vitdet": Family("ViTDet's encoder: VitDetConfig, VitDetModel.", _vitdet, _names),
}
