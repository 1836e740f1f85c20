"""Towers with SAM's encoder (GOT-OCR 2, PP-Chart2Table) and with RADIO's (Nemotron Omni)."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, bare
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.towers.beside import TowerSource, linear, merged, tiled
from archcli.load.huggingface.whole.vit_like import patches, qkv_biases, vit_like
from archcli.load.huggingface.whole.wave_like import DROPPED, PARAKEET, parakeet

SAM: dict[str, Any] = {
    "hidden_size": 768,
    "output_channels": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 1024,
    "patch_size": 16,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "qkv_bias": True,
    "use_abs_pos": True,
    "use_rel_pos": True,
    "window_size": 14,
    "global_attn_indexes": [2, 5, 8, 11],
    "mlp_dim": 3072,
}


def got_ocr2(source: TowerSource) -> Mapped:
    """GOT-OCR 2: SAM's encoder and neck, two convolutions that make the grid coarser, a linear layer."""
    config = source.part("vision_config", SAM)
    config.only("use_rel_pos", True)
    out, width = config.size("output_channels").value, bare(source.width)
    convolved = {"kind": "convolve", "kernel": 3, "padding": 1, "bias": False}
    norm = {"kind": "norm", "norm": layernorm(1e-6)}
    neck = [
        {**convolved, "kernel": 1, "padding": 0, "width": out},
        norm,
        {**convolved, "width": out},
        norm,
    ]
    encoder = _sam(config)
    config.report_unread_keys()
    source.whole.ignore("image_seq_length")
    steps = [
        {**convolved, "width": 2 * out, "stride": 2},
        {**convolved, "width": width, "stride": 2},
        linear(width),
    ]
    sizing = tiled(source, source.size(encoder["front_end"]["image_size"]))
    return {"model": encoder, "sizing": sizing, "projector": [*neck, *steps], "within": len(neck)}


def _sam(config: Config) -> Mapped:
    """SAM's encoder: windows in most layers, all places in some, differences of rows and columns in all."""
    position = "learned" if config.flag("use_abs_pos").value else "none"
    grid = {"class_token": False, "keeps_grid": True, "resize": None, "position": position}
    heads, full = config.size("num_attention_heads"), config.value("global_attn_indexes")
    if not isinstance(full.value, list | tuple) or not all(type(index) is int for index in full.value):
        raise config.error("global_attn_indexes must be a list of layers", at=full.place)
    attention = {"kind": "grid_axes", "n_heads": heads, "bias": True, "causal": False}
    if not config.flag("qkv_bias").value:
        attention["bias"] = ["o"]
    layer = {
        "kind": "pre_norm",
        "attention": attention,
        "ffn": mlp(config, config.size("mlp_dim"), "hidden_act"),
    }
    window = {**layer, "attention": {**attention, "side": config.size("window_size")}}
    return {
        "kind": "media_encoder",
        "d_model": config.size("hidden_size"),
        "norm": layernorm(config.number("layer_norm_eps")),
        "front_end": patches(config, **grid) | {"resize": None},
        "final_norm": False,
        "groups": groups([layer if i in full.value else window for i in range(config.layers())]),
    }


RADIO: Mapped = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "mlp_ratio": 4.0,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "use_swiglu_ffn": False,
    "qkv_bias": True,
    "layerscale_value": 1.0,
    "num_channels": 3,
    "patch_size": 16,
    "image_size": 224,
    "max_img_size": 2048,
    "num_cls_tokens": 3,
    "num_registers": 7,
}
RADIO_PLAIN = ("patch_dim", "video_patch_dim", "summary_idxs", "norm_mean", "norm_std", "image_size")
"""Keys that the class derives, and of pixels and of the answer of RADIO by itself."""
RANGE: Mapped = {"min_num_patches": 1024, "max_num_patches": 13312, "max_model_len": 16384}
"""Bounds of the patches of an image, and the context that bounds them too: defaults of the processor."""
SHUFFLED = 2
"""Patches of a side that become one token."""


def nemotron_vision(source: TowerSource) -> Mapped:
    """Nemotron Omni: RADIO's encoder, 2 x 2 patches merged, normalized, through a perceptron of squares."""
    whole, config = source.whole, source.part("vision_config", RADIO)
    whole.only("downsample_ratio", 0.5, default=0.5)
    whole.ignore("force_image_size", "video_pruning_rate")
    encoder, width = _radio(whole, config), config.size("hidden_size").value
    config.report_unread_keys()
    if whole.size("vision_hidden_size", "vit_hidden_size", default=1280).value != width:
        raise whole.error(f"vision_hidden_size must be {width}, as wide as the encoder")
    leading = encoder["front_end"]["registers"]
    within: list[Mapped] = [{"kind": "drop", "number": leading}] if leading else []
    if source.text.get("num_nextn_predict_layers", 0):
        within.append({"kind": "norm", "norm": layernorm(config.number("layer_norm_eps"))})
    inner = whole.size("projector_hidden_size", default=4096)
    return {
        "model": encoder,
        "sizing": _patch_range(source, config.size("patch_size").value),
        "projector": [*within, merged(SHUFFLED), *_squares(source, inner, bias=False)],
        "within": len(within),
    }


def nemotron_audio(source: TowerSource) -> Mapped:
    """Nemotron Omni: Parakeet's encoder without biases and scale, and a projector like that of images.

    A sound has a frame more than its length has steps of 10 ms.
    """
    unlike = {"attention_bias": False, "scale_input": False}
    config = source.part("audio_config", {**PARAKEET, **unlike})
    config.ignore("num_key_value_heads", *DROPPED.split(), "sampling_rate")
    encoder = parakeet(config)
    inner, bias = config.size("projection_hidden_size"), config.flag("projection_bias")
    config.report_unread_keys()
    encoder["front_end"]["beyond"] = 1
    return {
        "part": "audio_tower",
        "model": encoder,
        "projector": _squares(source, inner, bias=bias),
    }


def _squares(source: TowerSource, inner: Any, *, bias: Any) -> list[Mapped]:
    """Nemotron Omni's projector: a norm and a perceptron with squares of a rectifier."""
    return [
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": 1e-5}},
        linear(inner, bias=bias),
        {"kind": "activation", "activation": "relu2"},
        linear(source.width, bias=bias),
    ]


def _radio(whole: Config, config: Config) -> Mapped:
    """RADIO's encoder: tokens in front without places, and a matrix of patches of videos that idles."""
    config.ignore(*RADIO_PLAIN)
    width, patch = config.size("hidden_size"), config.size("patch_size").value
    frames = whole.size("video_temporal_patch_size", default=2).value
    config.only("video_temporal_patch_size", frames, default=frames)
    side = config.size("max_img_size").value // patch * patch
    front_end = patches(
        config,
        image_size=[side, side],
        flat=True,
        bias=False,
        class_token=False,
        registers=config.count("num_cls_tokens").value + config.count("num_registers").value,
        resize="bilinear",
        squared=True,
    )
    inner = int(width.value * config.number("mlp_ratio").value)
    network = mlp(config, width.derive(inner), "hidden_act")
    if config.flag("use_swiglu_ffn").value:
        thirds = (int(inner * 2 / 3) + 7) // 8 * 8
        network = {"kind": "glu", "d_ff": thirds, "activation": "silu", "bias": True}
    encoder = vit_like(
        config,
        front_end,
        attention={"bias": qkv_biases(config)},
        ffn=network,
        layer={"layer_scale": config.number("layerscale_value")},
        final_norm=False,
    )
    of_videos = [width.value, frames * config.size("num_channels").value * patch * patch]
    return {**encoder, "unread": {"video_patches": of_videos}}


def _patch_range(source: TowerSource, patch: int) -> Mapped:
    """The bounds of the patches of an image, as the processor has them."""
    stated = source.processor.with_defaults(**RANGE, patch_size=patch, downsample_ratio=0.5)
    stated.only("patch_size", patch)
    stated.only("downsample_ratio", 0.5)
    if not source.processor.data:
        source.note("it has 1,024 to 13,312 patches")
    least, most = stated.size("min_num_patches").value, stated.count("max_num_patches").value
    room = max((stated.size("max_model_len").value - 4) * SHUFFLED**2, least)
    most = max(min(room, most) if most else room, least)
    return {"kind": "patch_range", "patch": patch, "block": SHUFFLED, "least": least, "most": most}
