"""Towers of Qwen's kind: images of any size in patches of two frames, merged two by two."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped, groups
from archcli.wings.media.huggingface.towers.source import (
    NO_FIGURE,
    NOTHING,
    OF_QWEN,
    ROTARY,
    TowerSource,
    layer_numbers,
    linear,
    merged,
    merger,
    multiples,
    still_patches,
    taps_of,
)
from archcli.wings.media.huggingface.whole.vit_like import sides, vit_like

FRAME_AREAS = (128 * 28 * 28, 768 * 28 * 28)
"""Least and most pixels of a frame of Qwen2-VL's videos."""


def _tower(source: TowerSource, unstated: Mapping[str, Any] = NOTHING) -> Config:
    config = source.part("vision_config", unstated).with_words(**OF_QWEN)
    config.ignore(*NO_FIGURE)
    return config


def _video(source: TowerSource, config: Config, least: int, most: int, *, of_all: bool) -> Mapped | None:
    """Patches of as many frames as the class's, with the least and most pixels of its processor."""
    factor = config.size("patch_size").value * config.size("spatial_merge_size").value
    frames = config.size("temporal_patch_size").value
    return source.patched_video(factor, frames, least, most, of_all=of_all)


def qwen2_vl(source: TowerSource) -> Mapped:
    """Qwen2-VL: LayerNorm, plain networks, rotary rows and columns, no table of positions."""
    config = _tower(source)
    width, n = config.size("embed_dim"), config.size("spatial_merge_size").value
    norm = hf.layernorm(1e-6)
    ratio = config.number("mlp_ratio").value
    encoder = vit_like(
        config,
        still_patches(config, bias=False),
        attention={"position": ROTARY},
        norm=norm,
        ffn=hf.mlp(config, width.derive(int(width.value * ratio)), "hidden_act"),
        final_norm=False,
    )
    steps = merger(width.value * n * n, config.size("hidden_size"), "gelu", norm=norm, n=n)
    video = _video(source, config, *FRAME_AREAS, of_all=False)
    config.report_unread_keys()
    sizing = multiples(source, config, 56 * 56, 28 * 28 * 1280)
    return {"model": {**encoder, "d_model": width}, "sizing": sizing, "video": video, "projector": steps}


def qwen2_5_vl(source: TowerSource) -> Mapped:
    """Qwen2.5-VL: RMSNorm, gated networks, windows in all layers but a few."""
    return _in_windows(source, _tower(source))


def exaone4_5(source: TowerSource) -> Mapped:
    """EXAONE 4.5: Qwen2.5-VL's encoder with fewer heads of keys and values."""
    config = _tower(source)
    return _in_windows(source, config, {"kind": "gqa", "n_kv_heads": config.size("num_key_value_heads")})


def _in_windows(source: TowerSource, config: Config, heads: Mapping[str, Any] = NOTHING) -> Mapped:
    width, n = config.size("hidden_size"), config.size("spatial_merge_size").value
    patch, norm = config.size("patch_size").value, {"kind": "rmsnorm", "eps": 1e-6}
    # windows hold whole merged patches
    side = config.size("window_size").value // n // patch * n
    encoder = vit_like(
        config,
        still_patches(config, bias=False),
        attention={"position": ROTARY, **heads},
        norm=norm,
        ffn=hf.gated(config, bias=True),
        final_norm=False,
    )
    whole = encoder["groups"][0]["layer"]
    window = {**whole, "attention": {**whole["attention"], "kind": "patch_window", "side": side}}
    full = layer_numbers(config, "fullatt_block_indexes")
    encoder["groups"] = _runs([whole if i in full else window for i in range(config.layers())])
    steps = merger(width.value * n * n, config.size("out_hidden_size"), "gelu", norm=norm, n=n)
    video = _video(source, config, *FRAME_AREAS, of_all=False)
    config.report_unread_keys()
    sizing = multiples(source, config, 56 * 56, 28 * 28 * 1280)
    return {"model": encoder, "sizing": sizing, "video": video, "projector": steps}


def hyperclovax(source: TowerSource) -> Mapped:
    """HyperCLOVA X SEED Think: Qwen2.5-VL's tower and merger, and a linear layer."""
    tower = qwen2_5_vl(source)
    return {**tower, "projector": [*tower["projector"], linear(source.width)]}


def _runs(layers: list[Mapped]) -> list[Mapped]:
    """Groups of alike layers that follow each other."""
    groups: list[Mapped] = []
    for layer in layers:
        if groups and groups[-1]["layer"] is layer:
            groups[-1]["n_layers"] += 1
        else:
            groups.append({"n_layers": 1, "layer": layer})
    return groups


def _qwen3(source: TowerSource, unstated: Mapping[str, Any] = NOTHING) -> Mapped:
    """Qwen3-VL's encoder, with a square table of positions that is resized to each image."""
    config = _tower(source, unstated)
    width, n = config.size("hidden_size"), config.size("spatial_merge_size").value
    places, norm = config.size("num_position_embeddings"), hf.layernorm(1e-6)
    side = isqrt(places.value)
    if side * side != places.value:
        raise config.error(f"num_position_embeddings {places} is no square", at=places.place)
    front_end = still_patches(config, position="learned", resize="bilinear", corners=True)
    front_end["image_size"] = [side * config.size("patch_size").value] * 2
    encoder = vit_like(config, front_end, attention={"position": ROTARY}, norm=norm, final_norm=False)
    hidden, out = width.value * n * n, config.size("out_hidden_size")
    taps = taps_of(config)
    more = {"taps": taps, "tap_projector": merger(hidden, out, "gelu", norm=norm, n=n, first=False)}
    video = _video(source, config, 128 * 32 * 32, 768 * 32 * 32, of_all=True)
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": multiples(source, config, 256 * 256, 4096 * 4096),
        "video": video,
        "projector": merger(hidden, out, "gelu", norm=norm, n=n),
        **(more if taps else {}),
    }


def qwen3_vl(source: TowerSource) -> Mapped:
    """Qwen3-VL: three layers more are merged, each by a merger of its own (deepstack)."""
    return _qwen3(source)


def qwen3_5(source: TowerSource) -> Mapped:
    """Qwen3.5: Qwen3-VL's encoder without deepstack."""
    return _qwen3(source, {"deepstack_visual_indexes": []})


def _glm(source: TowerSource, config: Config, encoder: Mapped, network: Mapped) -> Mapped:
    """The tower of this encoder, for images between two areas."""
    video = _video(source, config, 112 * 112, 28 * 28 * 2 * 30000, of_all=True)
    config.report_unread_keys()
    # bounds are of all pixels of the frames that a still image is repeated for
    frames = config.size("temporal_patch_size").value
    sizing = multiples(source, config, 112 * 112, 28 * 28 * 15000, frames, grown="floor")
    return {"model": encoder, "sizing": sizing, "video": video, "projector": _glm_steps(config, network)}


def _glm_steps(config: Config, network: Mapped) -> list[Mapped]:
    """A convolution merges patches before a gated network."""
    out = config.size("out_hidden_size")
    return [
        merged(config.size("spatial_merge_size").value),
        linear(out),
        linear(out, bias=False),
        {"kind": "norm", "norm": hf.layernorm(1e-5)},
        {"kind": "activation", "activation": "gelu"},
        {
            "kind": "network",
            "ffn": {"kind": "glu", "activation": hf.activation(config, "hidden_act"), **network},
        },
    ]


def glm4v(source: TowerSource) -> Mapped:
    """GLM-4.1V: a table of positions and rotary ones, networks as wide as what is merged."""
    config = _tower(source)
    norm = {"kind": "rmsnorm", "eps": config.number("rms_norm_eps")}
    front_end = still_patches(config, position="learned", norm=norm, norms_patches=True)
    front_end["image_size"] = [config.size("image_size").value] * 2
    bias = ["q", "k", "v"] if config.flag("attention_bias").value else False
    act, width = hf.activation(config, "hidden_act"), config.size("out_hidden_size")
    encoder = vit_like(
        config,
        front_end,
        attention={"position": ROTARY, "bias": bias},
        norm=norm,
        ffn={"kind": "glu", "d_ff": width, "activation": act},
    )
    return _glm(source, config, encoder, {"d_ff": config.size("intermediate_size")})


def glm_ocr(source: TowerSource) -> Mapped:
    """GLM-OCR: rotary positions alone, queries and keys normalized, no norm on patches."""
    config = _tower(source)
    encoder, out = _normed_glm(config), config.size("out_hidden_size")
    return _glm(source, config, encoder, {"d_ff": out.derive(out.value * config.size("in_channels").value)})


def _normed_glm(config: Config, **network: Any) -> Mapped:
    norm = {"kind": "rmsnorm", "eps": config.number("rms_norm_eps")}
    bias = config.flag("attention_bias").value
    return vit_like(
        config,
        still_patches(config),
        attention={"position": ROTARY, "bias": bias, "qk_norm": {"norm": norm, "per": "head"}},
        norm=norm,
        ffn={**hf.gated(config, bias=bias), **network},
    )


def glm5_next(source: TowerSource) -> Mapped:
    """GLM-5.3: GLM-OCR's encoder with clipped SwiGLU; images have a least and a most number of tokens."""
    config, processor = _tower(source), source.processor
    limit = {"limit": config.number("swiglu_limit")}
    steps = _glm_steps(config, {"d_ff": config.size("projection_intermediate_size"), **limit})
    least, most = (processor.size(f"{which}_image_tokens") for which in ("min", "max"))
    if not source.in_file:
        source.note(f"it has {least} to {most} tokens")
    cell = config.size("patch_size").value * config.size("spatial_merge_size").value
    config.report_unread_keys()
    sizing = {"kind": "budget", "cell": cell, "least": least, "most": most}
    return {"model": _normed_glm(config, **limit), "sizing": sizing, "projector": steps}


def kimi(source: TowerSource) -> Mapped:
    """Kimi K2.5: a position table of 64 x 64 and RoPE, then a merger of two linear layers."""
    vision = source.whole.get("vision_config", default={})
    vision = vision if isinstance(vision, dict) else {}
    # keys of published files have a prefix that those of the class lack
    renamed = {
        key.removeprefix("vt_").replace("init_pos_emb", "pos_emb"): value for key, value in vision.items()
    }
    whole = source.whole
    places = whole.places.inner("vision_config")
    config = Config(
        {**source.defaults("vision_config"), **renamed}, places, notes=whole.notes, reader=whole.reader
    )
    patch, norm = config.size("patch_size").value, hf.layernorm(1e-5)
    table = [config.size("pos_emb_height").value * patch, config.size("pos_emb_width").value * patch]
    front_end = {
        "kind": "patches",
        "image_size": table,
        "patch_size": [patch, patch],
        "class_token": False,
        "coordinates": "grid",
    }
    block = sides(config, "merge_kernel_size")
    if any(side % (patch * n) for side, n in zip(table, block.value, strict=True)):
        raise config.error(f"pos_emb_height and pos_emb_width are no multiples of merge_kernel_size {block}")
    encoder = vit_like(config, front_end, attention={"position": ROTARY}, norm=norm)
    width = config.size("hidden_size").value
    normed = source.whole.size("projection_hidden_size", default=1152)
    if normed.value != width:
        what = f"projection_hidden_size {normed} must be hidden_size {width} of the tower"
        raise source.whole.error(what, at=normed.place)
    hidden = width * block.value[0] * block.value[1]
    source.whole.ignore("vision_config", "use_unified_vision_chunk", "video_placeholder")
    steps = [
        {"kind": "norm", "norm": norm},
        {"kind": "merge", "block": block},
        linear(hidden),
        {"kind": "activation", "activation": "gelu"},
        linear(source.width),
    ]
    return {"model": encoder, "sizing": _padded(source, patch, block.value[0]), "projector": steps}


def _padded(source: TowerSource, patch: int, n: int) -> Mapped:
    """How Kimi's processor bounds an image; `n` patches of a side are a token's."""
    most, size = source.processor.size("max_patches"), source.processor.get("size")
    longest = size.get("max_height") if isinstance(size, dict) else None
    if not source.in_file:
        source.note(f"it has at most {most.value:,} patches, {longest} on a side")
    if type(longest) is not int or size.get("max_width") != longest:
        return {"kind": "unknown", "why": "its processor takes a size of equal max_height and max_width"}
    return {"kind": "padded", "cell": n * patch, "patch": patch, "most": most, "longest": longest}


def lfm3_vl(source: TowerSource) -> Mapped:
    """LFM3-VL: gated convolutions over patches in most layers, no norm behind them, a merger."""
    config, whole = source.part("vision_config"), source.whole
    config.ignore(*NO_FIGURE)
    norm, n = {"kind": "rmsnorm", "eps": config.number("norm_eps")}, config.size("spatial_merge_size").value
    heads = {"kind": "gqa", "n_kv_heads": config.size("num_key_value_heads"), "bias": False}
    encoder = vit_like(
        config,
        still_patches(config, flat=True, bias=False, norm=norm),
        attention={**heads, "position": ROTARY, "qk_norm": {"norm": norm}},
        norm=norm,
        ffn={"kind": "glu", "d_ff": config.size("intermediate_size"), "activation": "silu"},
        final_norm=False,
    )
    looking = encoder["groups"][0]["layer"]
    conv = {**looking, "attention": {"kind": "grid_conv", "kernel": config.size("conv_kernel_size")}}
    kinds, count = {"conv": conv, "full_attention": looking}, config.layers()
    usual = ["conv" if i < 2 or i % 2 else "full_attention" for i in range(count)]  # noqa: PLR2004
    types = config.per_layer("layer_types", count) or usual
    if not all(isinstance(kind, str) and kind in kinds for kind in types):
        raise config.error(f"layer_types must be {' or '.join(kinds)}", at=config.place("layer_types"))
    bias = whole.flag("projector_bias", default=True)
    steps = [
        {"kind": "norm", "norm": hf.layernorm(1e-6)},
        merged(n),
        linear(whole.size("projector_hidden_size", default=4096), bias=bias),
        {"kind": "activation", "activation": hf.activation(whole, "projector_hidden_act", default="gelu")},
        linear(source.width, bias=bias),
    ]
    config.report_unread_keys()
    return {
        "model": {**encoder, "groups": groups([kinds[kind] for kind in types])},
        "sizing": multiples(source, config, 56 * 56, 28 * 28 * 1280),
        "projector": steps,
    }
