"""SAM's encoder as a tower: GOT-OCR 2, PP-Chart2Table."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, bare
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.towers.beside import TowerSource, linear, tiled
from archcli.load.huggingface.whole.vit_like import patches

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
