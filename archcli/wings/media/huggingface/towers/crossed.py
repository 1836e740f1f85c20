"""Towers of other shapes: tiles that cross attention reads (Llama 3.2 Vision), Florence-2, GIT, Fuyu."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear
from archcli.wings.media.huggingface.whole.vit_like import patches, vit_like

MULTIPLE = 8
"""The class pads the tokens of a tile to a multiple of it."""
PLAIN_EPS = 1e-5
"""nn.LayerNorm's own eps, which no key states."""


def _entries(config: Config, key: str) -> list[Any]:
    """A list that is not empty."""
    entry = config.value(key)
    if not isinstance(entry.value, list) or not entry.value:
        raise config.error(f"{key} must be a list, not {hf.short_repr(entry.value)}", at=entry.place)
    return entry.value


def mllama(source: TowerSource) -> Mapped:
    """Llama 3.2 Vision: four tiles in one sequence, local and gated layers, six layers concatenated."""
    config = source.part("vision_config").with_words(num_attention_heads="attention_heads")
    config.ignore("tie_word_embeddings")
    tiles, kinds = config.size("max_num_tiles"), 1 + len(_entries(config, "supported_aspect_ratios"))
    tapped = _tapped(config)
    norm, plain = hf.layernorm(config.number("norm_eps")), hf.layernorm(PLAIN_EPS)
    front_end = patches(config, bias=False, norm=plain, resize=None)
    front_end |= {"kind": "tiled_patches", "tiles": tiles, "arrangements": kinds, "multiple": MULTIPLE}
    encoder = vit_like(config, front_end, attention={"bias": False}, norm=norm, final_norm=False)
    local = encoder["groups"]
    gated = {**local[0]["layer"], "kind": "gated_pre_norm"}
    between = {"kind": "tile_embedding", "tiles": tiles, "arrangements": kinds, "norm": plain}
    sides, patch = hf.bare(front_end["image_size"]), hf.bare(front_end["patch_size"])
    tokens = 1 + (sides[0] // patch[0]) * (sides[1] // patch[1])
    padded = tokens + -tokens % MULTIPLE
    encoder["groups"] = [
        *local,
        {"n_layers": 1, "layer": between},
        {"n_layers": config.size("num_global_layers"), "layer": gated},
    ]
    encoder["score_bias"] = {"kind": "padded_tiles", "tokens": tokens, "padded": padded}
    width = config.size("vision_output_dim")
    if width.value != (1 + len(tapped)) * config.size("hidden_size").value:
        what = f"vision_output_dim {width} is not that of {1 + len(tapped)} layers side by side"
        raise source.whole.error(what, at=width.place)
    config.report_unread_keys()
    keep = {"kind": "keep", "number": tokens, "of": padded}
    steps: list[Mapped] = [keep, linear(source.width)]
    sizing = {"kind": "fixed", "size": [tiles.value * sides[0], sides[1]]}
    return {"model": encoder, "sizing": sizing, "projector": steps, "crosses": True, "beside": tapped}


def _tapped(config: Config) -> list[int]:
    """The numbers of layers after which states are taken, to be concatenated with the last ones."""
    layers, counts = config.size("num_hidden_layers"), []
    for index in _entries(config, "intermediate_layers_indices"):
        if type(index) is not int or not -layers.value <= index < layers.value:
            what = f"intermediate_layers_indices: there is no layer {hf.short_repr(index)} of {layers}"
            raise config.error(what, at=config.place("intermediate_layers_indices"))
        # index 3 is the output of the fourth layer: the states after 4 layers
        counts.append(1 + index % layers.value)
    return counts


def florence2(source: TowerSource) -> Mapped:
    """Florence-2: DaViT's grid with tables of rows and columns, and its mean as first token."""
    config = source.part("vision_config")
    widths = [
        config.as_size("embed_dim", config.value("embed_dim").derive(n)).value
        for n in _entries(config, "embed_dim")
    ]
    stages = [_stage(config, i, len(widths)) for i in range(len(widths))]
    encoder = _davit(config, widths, stages)
    config.ignore("max_temporal_embeddings")
    out = config.size("projection_dim")
    if out.value != hf.bare(source.width):
        what = f"projection_dim {out} is not the width of the language model"
        raise source.whole.error(what, at=out.place)
    steps = [
        {"kind": "grid_tables", "entries": config.size("max_position_embeddings")},
        {"kind": "mean_first"},
        linear(out, bias=False),
        {"kind": "norm", "norm": hf.layernorm(PLAIN_EPS)},
    ]
    config.report_unread_keys()
    size = source.size([768, 768])
    return {"model": encoder, "sizing": {"kind": "fixed", "size": size}, "projector": steps}


def _stage(config: Config, i: int, stages: int) -> dict[str, int]:
    """The sizes of a stage by key."""
    sizes = {}
    for key in ("depths", "patch_size", "patch_stride", "patch_padding", "num_heads", "num_groups"):
        entries = _entries(config, key)
        if len(entries) != stages:
            raise config.error(f"{key} must have an entry for each of {stages} stages", at=config.place(key))
        entry = config.value(key).derive(entries[i])
        sizes[key] = entries[i] if entries[i] == 0 else config.as_size(key, entry).value
    prenorm = _entries(config, "patch_prenorm")
    if len(prenorm) != stages or prenorm[i] is not (i > 0):
        what = "a norm comes before the convolution of each stage but the first"
        raise config.error(f"patch_prenorm: {what}", at=config.place("patch_prenorm"))
    return sizes


def _davit(config: Config, widths: list[int], stages: list[dict[str, int]]) -> Mapped:
    """DaViT: attention in windows and among channels in turn, on a grid that becomes coarser and wider."""
    norm, first, groups = hf.layernorm(PLAIN_EPS), stages[0], []
    for i, (width, stage) in enumerate(zip(widths, stages, strict=True)):
        if i:
            down = {
                "kind": "downsample",
                "out": width,
                "size": stage["patch_stride"],
                "kernel": stage["patch_size"],
                "padding": stage["patch_padding"],
            }
            groups.append({"n_layers": 1, "layer": down})
        groups.append({"n_layers": 2 * stage["depths"], "pattern": _pair(config, width, stage)})
    front_end = {
        "kind": "patches",
        "image_size": [768, 768],
        "patch_size": [first["patch_size"]] * 2,
        "stride": [first["patch_stride"]] * 2,
        "padding": first["patch_padding"],
        "in_channels": config.size("in_channels"),
        "class_token": False,
        "position": "none",
        "norm": norm,
        "keeps_grid": True,
    }
    return {
        "kind": "media_encoder",
        "d_model": widths[0],
        "norm": norm,
        "front_end": front_end,
        "final_norm": False,
        "groups": groups,
    }


def _pair(config: Config, width: int, stage: dict[str, int]) -> list[Mapped]:
    """A layer with windows and one with channels."""
    bias: Any = True if config.flag("qkv_bias").value else ["o"]
    d_ff = int(config.number("mlp_ratio").value * width)
    act = hf.activation(config, "activation_function")
    ffn = {"kind": "mlp", "d_ff": d_ff, "activation": act, "bias": True}
    for key in ("num_heads", "num_groups"):
        if width % stage[key]:
            what = f"{key} {stage[key]} does not divide the width {width} of its stage"
            raise config.error(what, at=config.place(key))
    common = {"head_dim": width // stage["num_heads"], "bias": bias, "causal": False}
    windows = {
        "kind": "grid_window",
        "n_heads": stage["num_heads"],
        "side": config.size("window_size"),
        **common,
    }
    channels = {"kind": "channel", "n_heads": stage["num_groups"], "bias": bias, "causal": False}
    channels["head_dim"] = width // stage["num_groups"]
    return [
        {"kind": "convolved_pre_norm", "attention": attention, "ffn": ffn}
        for attention in (windows, channels)
    ]


def git(source: TowerSource) -> Mapped:
    """GIT: CLIP's class token and patches, all normalized, through a matrix and a norm, before the text."""
    config = source.part("vision_config")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    encoder = vit_like(config, patches(config, bias=False, norm=norm))
    # a vector for each frame of a video, which no image reads
    frames = source.whole.optional_size("num_image_with_embedding")
    if frames is not None:
        encoder["unread"] = {"frame_embeddings": [frames.value, config.size("hidden_size").value]}
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])},
        "projector": [linear(source.width), {"kind": "norm", "norm": norm}],
        "both_ways": "medium",
    }


def fuyu(source: TowerSource) -> Mapped:
    """Fuyu: each patch through one matrix, and no layers."""
    whole = source.whole
    patch, side = whole.size("patch_size", default=30), whole.size("image_size", default=300)
    if _processor_patch(source) not in (None, patch.value):
        raise whole.error("patch_size is not that of the processor", at=whole.place("patch_size"))
    front_end = {
        "kind": "patches",
        # no count depends on it, but an image must not be smaller than a patch
        "image_size": side.derive([max(side.value, patch.value)] * 2),
        "patch_size": [patch, patch],
        "in_channels": whole.size("num_channels", default=3),
        "flat": True,
        "whole": True,
        "class_token": False,
        "position": "none",
    }
    encoder = {
        "kind": "media_encoder",
        "d_model": source.width,
        "norm": hf.layernorm(1e-5),
        "front_end": front_end,
        "final_norm": False,
        "groups": [],
    }
    return {"model": encoder, "sizing": _within(source, patch.value)}


def _processor_patch(source: TowerSource) -> Any:
    """The side of a patch by the processor's file; None without one."""
    patch = source.processor.get("patch_size", default=None) if source.in_file else None
    return patch.get("height") if isinstance(patch, dict) else patch


def _within(source: TowerSource, patch: int) -> Mapped:
    """The bounds of an image by Fuyu's processor."""
    if source.processor.get("do_resize", default=True) is not True:
        return {"kind": "unknown", "why": "its processor does not resize images"}
    size = source.processor.get("size")
    bounds = [size.get(key) for key in ("height", "width")] if isinstance(size, dict) else []
    if not source.in_file:
        source.note(f"it has at most {' x '.join(f'{side:,}' for side in bounds)} pixels")
    if not bounds or any(type(side) is not int or side < 1 or side % patch for side in bounds):
        return {"kind": "unknown", "why": "its processor states a size of no whole patches"}
    return {"kind": "within", "bounds": bounds, "patch": patch}
