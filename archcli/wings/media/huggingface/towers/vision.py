"""Towers of further models: DeepSeek-VL, LFM2-VL, MiniMax-M3, Step 3.7, Phi-4."""

from __future__ import annotations

from math import isqrt

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import (
    NO_FIGURE,
    OF_QWEN,
    ROTARY,
    TowerSource,
    linear,
    merged,
    merger,
    multiples,
    still_patches,
)
from archcli.wings.media.huggingface.whole.vit_like import patches, sides, vit_like

GELU = {"kind": "activation", "activation": "gelu"}
LFM_FILE = {
    "downsample_factor": 2,
    "projector_hidden_act": "gelu",
    "projector_hidden_size": 2560,
    "projector_bias": True,
    "projector_use_layernorm": True,
}
STEP_WORDS = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "layer_scale_init_value": "ls_init_value",
}


def deepseek_vl(source: TowerSource) -> Mapped:
    """DeepSeek-VL: SigLIP's patches through a perceptron."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    size = source.size(encoder["front_end"]["image_size"])
    steps = [linear(source.width), GELU, linear(source.width)]
    return {"model": encoder, "sizing": {"kind": "fixed", "size": size}, "projector": steps}


def lfm2_vl(source: TowerSource) -> Mapped:
    """LFM2-VL: SigLIP 2 for images of any shape, patches merged two by two, through a perceptron."""
    whole = source.whole.with_defaults(**LFM_FILE)
    encoder = source.encoder("vision_config", "siglip2_vision_model")
    n, bias = whole.size("downsample_factor"), whole.flag("projector_bias")
    normed = (
        [{"kind": "norm", "norm": hf.layernorm(1e-5)}] if whole.flag("projector_use_layernorm").value else []
    )
    steps = [
        merged(n),
        *normed,
        linear(whole.size("projector_hidden_size"), bias=bias),
        {"kind": "activation", "activation": hf.activation(whole, "projector_hidden_act")},
        linear(source.width, bias=bias),
    ]
    return {"model": encoder, "sizing": _lfm_sizing(source, encoder, n.value), "projector": steps}


def _lfm_sizing(source: TowerSource, encoder: Mapped, n: int) -> Mapped:
    """What LFM2-VL's processor makes of an image; n x n patches are a token."""
    if not source.in_file:
        source.note("an image becomes 64 to 256 tokens, a larger one up to 10 tiles and an overview")
    processor = source.processor
    factor = hf.bare(encoder["front_end"]["patch_size"])[0] * n
    least, most = (processor.size(key).value * factor**2 for key in ("min_image_tokens", "max_image_tokens"))
    tiles = [processor.size(key).value for key in ("min_tiles", "max_tiles")]
    splits = processor.flag("do_image_splitting").value and tiles != [1, 1]
    return {
        "kind": "tiles_beyond",
        "factor": factor,
        "least": least,
        "most": most,
        "largest": int(most * processor.number("max_pixels_tolerance").value) if splits else hf.LARGEST,
        "tile": processor.size("tile_size"),
        "least_tiles": tiles[0],
        "most_tiles": tiles[1],
        "overview": processor.flag("use_thumbnail"),
    }


def ernie4_5_vl(source: TowerSource) -> Mapped:
    """ERNIE 4.5 VL: two perceptrons behind the merger, the second of what two frames have side by side."""
    config = source.part("vision_config").with_words(**OF_QWEN)
    config.ignore(*NO_FIGURE)
    if config.size("temporal_merge_size").value != 2:  # noqa: PLR2004 the class computes with two
        raise config.error("temporal_merge_size other than 2 is not known")
    norm, n = hf.layernorm(config.number("rms_norm_eps")), config.size("spatial_merge_size").value
    front_end = still_patches(config, bias=False, flat=True)
    encoder = vit_like(config, front_end, attention={"position": ROTARY}, norm=norm)
    hidden = config.size("hidden_size").value * n * n
    perceptron = [linear(hidden), {"kind": "activation"}, linear(hidden), {"kind": "norm", "norm": norm}]
    eps = source.text.get("rms_norm_eps", 1e-5)
    steps = [
        merged(n),
        *perceptron,
        {"kind": "repeat"},
        *perceptron,
        linear(source.width),
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}},
    ]
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": multiples(source, config, 56 * 56, 28 * 28 * 6177),
        "projector": steps,
    }


def paddleocr_vl(source: TowerSource) -> Mapped:
    """PaddleOCR-VL: SigLIP's layers with rotary positions beside its table, merged two by two."""
    config = source.part("vision_config")
    config.ignore(*NO_FIGURE, "temporal_patch_size", "tokens_per_second")
    norm, n = hf.layernorm(config.number("layer_norm_eps")), config.size("spatial_merge_size").value
    front_end = patches(config, class_token=False, coordinates="grid", resize="bilinear")
    encoder = vit_like(config, front_end, attention={"position": ROTARY}, norm=norm)
    hidden = config.size("hidden_size").value * n * n
    steps = merger(hidden, source.width, "gelu", norm=hf.layernorm(1e-5), n=n)
    config.report_unread_keys()
    sizing = multiples(source, config, 384 * 384, 1536 * 1536, grown="round")
    return {"model": encoder, "sizing": sizing, "projector": steps}


def minimax_m3_vl(source: TowerSource) -> Mapped:
    """MiniMax-M3: a norm on patches, no norm behind the layers, a perceptron before and behind the merger."""
    config = source.part("vision_config")
    config.ignore(*NO_FIGURE)
    norm, n = hf.layernorm(config.number("layer_norm_eps")), config.size("spatial_merge_size").value
    encoder = vit_like(
        config,
        still_patches(config, bias=False, norm=norm),
        attention={"position": ROTARY},  # a still image turns two of the three axes of a video
        norm=norm,
        final_norm=False,
    )
    hidden, gelu = source.whole.size("projector_hidden_size", default=6144), {"kind": "activation"}
    perceptron = [linear(hidden), gelu, linear(source.width)]
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": multiples(source, config, 56 * 56, 28 * 28 * 1280),
        "projector": [*perceptron, merged(n), *perceptron],
    }


def step3p7(source: TowerSource) -> Mapped:
    """Step 3.7: scaled branches, a table and rotary positions; two convolutions, then one matrix."""
    config = source.part("vision_config").with_words(**STEP_WORDS)
    config.ignore(*NO_FIGURE, "max_position_embeddings", "intermediate_size")
    norm, width = hf.layernorm(config.number("layer_norm_eps")), config.size("hidden_size")
    encoder = vit_like(
        config,
        patches(config, bias=False, class_token=False, norm=norm, coordinates="grid", resize="bilinear"),
        attention={"position": ROTARY},
        norm=norm,
        # the class ignores intermediate_size
        ffn=hf.mlp(config, width.derive(int(width.value * config.number("mlp_ratio").value)), "hidden_act"),
        layer={"layer_scale": config.number("layer_scale_init_value")},
        final_norm=False,
    )
    config.report_unread_keys()
    halved = [{"kind": "convolve", "width": n * width.value, "stride": 2, "padding": 1} for n in (2, 4)]
    size, processor = source.size(encoder["front_end"]["image_size"]), source.processor
    if not source.in_file:
        source.note("tiles have 504 x 504 pixels, the longer side at most 3,024")
    sizing = {
        "kind": "windows",
        "size": size,
        "tile": processor.size("patch_size"),
        "longest": processor.size("max_image_size"),
    }
    last = linear(source.width, bias=source.whole.flag("projector_bias", default=False))
    return {"model": encoder, "sizing": sizing, "within": 2, "projector": [*halved, last]}


def phi4_multimodal(source: TowerSource) -> Mapped:
    """Phi-4: SigLIP in tiles, means of two by two patches, separators, a perceptron."""
    if source.whole.get("audio_config", default=None) is None:
        raise source.whole.error("audio_config is missing, for which the class makes a tower of its own")
    config = source.part("vision_config")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    heads, patch = config.size("num_attention_heads"), config.size("patch_size").value
    front_end = patches(config, class_token=False)
    ffn = hf.mlp(config, config.size("intermediate_size"), "hidden_act")
    # the class computes its pooler and all layers, and reads the vectors before the last
    encoder = vit_like(
        config,
        front_end,
        norm=norm,
        ffn=ffn,
        pooling={"kind": "attention", "n_heads": heads, "norm": norm, "ffn": ffn},
    )
    tile = config.size("crop_size")
    if sides(config, "image_size").value != [tile.value] * 2 or tile.value % (2 * patch):
        raise config.error(
            "image_size must be crop_size, and a whole and even number of patches", at=tile.place
        )
    config.report_unread_keys()
    if not source.in_file:
        source.note("it becomes up to 36 tiles")
    most = source.processor.size("dynamic_hd")
    steps = [{"kind": "pool"}, {"kind": "join_tiles"}, linear(source.width), GELU, linear(source.width)]
    return {
        "model": encoder,
        "sizing": {"kind": "crops", "tile": tile, "patch": patch, "most": most},
        "within": 2,
        "projector": steps,
    }


def cosmos3_edge(source: TowerSource) -> Mapped:
    """Cosmos 3 Edge: SigLIP 2's layers over images of any shape, a merger of two linear layers."""
    config = source.part("vision_config")
    config.ignore(*NO_FIGURE)
    patch, places = config.size("patch_size").value, config.size("num_patches")
    side, n = isqrt(places.value), config.size("spatial_merge_size").value
    if side * side != places.value:
        raise config.error(f"num_patches {places} is no square", at=places.place)
    front_end = still_patches(
        config, flat=True, position="learned", coordinates="order", resize="bilinear", antialias=True
    )
    encoder = vit_like(
        config,
        {**front_end, "image_size": [side * patch] * 2},
        norm=hf.layernorm(config.number("layer_norm_eps")),
    )
    inner = source.whole.size("projector_hidden_size", default=11520)
    config.report_unread_keys()
    return {
        "model": encoder,
        "sizing": multiples(source, config, 256 * 256, 4096 * 4096, grown="floor"),
        "projector": merger(inner.value, source.width, "gelu", norm=hf.layernorm(1e-6), n=n),
    }


def muse_glimmer(source: TowerSource) -> Mapped:
    """Muse Glimmer: a table and rotary positions, windows as large as the table in most layers."""
    config, whole = source.part("vision_config"), source.whole
    config.ignore(*NO_FIGURE, "max_position_embeddings")
    n = config.size("merge_size").value
    width = config.size("hidden_size").value * n * n
    if whole.size("out_hidden_size", default=6144).value != width:
        what = "out_hidden_size must be hidden_size times merge_size squared: the class joins by it"
        raise whole.error(what)
    encoder = _muse_encoder(config)
    inner = whole.size("projector_hidden_size", default=4096)
    act = hf.activation(whole, "projector_hidden_act", default="gelu")
    layer = [linear(inner, bias=False), {"kind": "activation", "activation": act}]
    eps = source.text.get("rms_norm_eps", 1e-5)
    last = {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps, "weight": False}}
    config.report_unread_keys()
    if not source.in_file:
        source.note("it becomes at most 4,096 tokens")
    most = source.processor.size("max_image_tokens")
    return {
        "model": encoder,
        "sizing": {"kind": "grid_budget", "cell": config.size("patch_size").value * n, "most": most},
        "projector": [merged(n), *layer, *layer, linear(source.width, bias=False), last],
    }


def _muse_encoder(config: Config) -> Mapped:
    """Muse Glimmer's layers, each with windows or without."""
    side, patch = config.size("pos_emb_height"), config.size("patch_size").value
    if config.size("pos_emb_width").value != side.value:
        raise config.error("pos_emb_width must be pos_emb_height: the class takes the table for a square")
    front_end = still_patches(
        config, frames="patch_temporal", flat=True, bias=False, position="learned", resize="bilinear"
    )
    front_end |= {
        "image_size": [side.value * patch] * 2,
        "norm": hf.layernorm(config.number("layer_norm_eps")),
    }
    encoder = vit_like(config, front_end, attention={"position": ROTARY}, norm=hf.layernorm(1e-5))
    full = encoder["groups"][0]["layer"]
    window = {**full, "attention": {**full["attention"], "kind": "patch_window", "side": side}}
    kinds, types = {"full_attention": full, "window_attention": window}, config.value("layer_types")
    known = isinstance(types.value, list) and all(isinstance(kind, str) for kind in types.value)
    if not known or len(types.value) != config.layers() or not {*types.value} <= {*kinds}:
        raise config.error(f"layer_types must be {' or '.join(kinds)} for each layer", at=types.place)
    return {**encoder, "groups": hf.groups([kinds[kind] for kind in types.value])}
