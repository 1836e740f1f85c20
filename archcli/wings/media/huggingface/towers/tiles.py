"""Towers that read tiles of an image and shuffle pixels: InternVL, SmolVLM, ModernVBERT, Llama 4."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear, merged, tiled
from archcli.wings.media.huggingface.whole.vit_like import patches, vit_like

CHAT_PLAIN = ("drop_path_rate", "dropout", "use_flash_attn", "use_bfloat16", "use_fa3")
CHAT_ADAPTERS = ("use_backbone_lora", "use_llm_lora", "pad2square", "system_message")


def _ratio(config: Config, key: str, default: float) -> int:
    """How many patches of a side become one: 1 over a ratio such as 0.5."""
    ratio = config.number(key, default=default)
    n = round(1 / ratio.value) if ratio.value > 0 else 0
    if n < 1 or n * ratio.value != 1:
        raise config.error(f"{key} {ratio} is not 1 over a whole number", at=ratio.place)
    return n


def _frames(encoder: Mapped, size: Any, n: int) -> Mapped | None:
    """Frames of one size; None for sizes whose patches are no whole blocks of n x n, which classes refuse."""
    patch = hf.bare(encoder["front_end"]["patch_size"])
    for side, of_patch in zip(hf.bare(size), patch, strict=False):
        if isinstance(side, int) and isinstance(of_patch, int) and side // of_patch % n:
            return None
    return {"kind": "frames", "size": size}


def internvl(source: TowerSource) -> Mapped:
    """InternVL: InternViT's patches merged two by two, normalized, through a perceptron."""
    return _internvl(source, source.part("vision_config"))


def qianfan_ocr(source: TowerSource) -> Mapped:
    """Qianfan-OCR: InternVL's tower with biases in attention."""
    config = source.part("vision_config")
    return _internvl(source, config)


def internvl_chat(source: TowerSource) -> Mapped:
    """InternVL with the keys of its original repository, whose config.json has the tiling too."""
    whole = source.whole
    config = source.part("vision_config")
    config = config.with_words(use_qk_norm="qk_normalization", attention_bias="qkv_bias")
    config.ignore(*CHAT_PLAIN)
    whole.ignore("select_layer", "ps_version", "template", "force_image_size", *CHAT_ADAPTERS)
    tower = _internvl(source, config)
    tile = whole.size("force_image_size", default=config.size("image_size"))
    cut = {
        "kind": "canvas",
        "least": whole.size("min_dynamic_patch", default=1),
        "most": whole.size("max_dynamic_patch", default=6),
        "overview": whole.flag("use_thumbnail", default=False),
    }
    square = tile.derive([tile.value] * 2)
    cuts = whole.flag("dynamic_image_size", default=False).value
    return {**tower, "sizing": {**cut, "tile": square} if cuts else {"kind": "fixed", "size": square}}


def _internvl(source: TowerSource, config: Config) -> Mapped:
    whole = source.whole
    config.only("use_absolute_position_embeddings", True)
    config.only("use_mask_token", False)
    config.only("norm_type", "layer_norm", "rms_norm")
    whole.only("vision_feature_layer", -1, default=-1)
    whole.only("vision_feature_select_strategy", "default", default="default")
    whole.ignore("image_seq_length")
    eps = config.number("layer_norm_eps")
    rms = config.get("norm_type") == "rms_norm"
    norm = {"kind": "rmsnorm", "eps": eps} if rms else hf.layernorm(eps)
    qk_norm = {"qk_norm": {"norm": {"kind": "rmsnorm", "eps": eps}, "per": "full"}}
    bias = True if config.flag("attention_bias").value else ["o"]
    encoder = vit_like(
        config,
        patches(config),
        attention={"bias": bias, **(qk_norm if config.flag("use_qk_norm").value else {})},
        norm=norm,
        layer={"layer_scale": config.number("layer_scale_init_value")},
        final_norm=not config.flag("use_mean_pooling").value,
    )
    config.report_unread_keys()
    n = _ratio(whole, "downsample_ratio", 0.5)
    tile = source.size(encoder["front_end"]["image_size"])
    steps = [
        {"kind": "drop"},
        merged(n),
        {"kind": "norm", "norm": hf.layernorm(1e-5)},
        linear(source.width),
        {"kind": "activation", "activation": hf.activation(whole, "projector_hidden_act", default="gelu")},
        linear(source.width),
    ]
    video = _frames(encoder, source.frame_size(tile), n)
    return {"model": encoder, "sizing": tiled(source, tile), "video": video, "projector": steps}


def smolvlm(source: TowerSource) -> Mapped:
    """Idefics 3 and SmolVLM: SigLIP's patches merged by pixel shuffle, through one matrix."""
    config = source.part("vision_config")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    encoder = vit_like(config, patches(config, class_token=False), norm=norm)
    config.report_unread_keys()
    return _shuffled(source, encoder, source.whole.size("scale_factor", default=2))


def modernvbert(source: TowerSource) -> Mapped:
    """ModernVBERT: as SmolVLM, with SigLIP's own pooler, which the class computes."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    return _shuffled(source, encoder, source.whole.size("pixel_shuffle_factor", default=4))


def ultravbert(source: TowerSource) -> Mapped:
    """UltraVBERT: as ModernVBERT with a norm behind the matrix, by default without SigLIP's pooler."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    tower = _shuffled(source, encoder, source.whole.size("pixel_shuffle_factor", default=4))
    eps = source.text.get("rms_norm_eps", 1e-6)
    normed = {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}}
    most = source.processor.size("max_image_tiles", default=27)
    sizing = {**tower["sizing"], "most": most}
    return {**tower, "sizing": sizing, "projector": [*tower["projector"], normed]}


def _shuffled(source: TowerSource, encoder: Mapped, n: ConfigValue[int]) -> Mapped:
    """Tiles through the encoder, n x n patches merged, one matrix."""
    size = hf.bare(encoder["front_end"]["image_size"])[0]
    tile = source.longest("max_image_size", size)
    longest = source.longest("size", 4 * size)
    frame = source.of_videos.get("max_image_size", default=None)
    frame = frame.get("longest_edge", tile) if isinstance(frame, dict) else tile
    video = _frames(encoder, [frame, frame], n.value) if source.whole.model_type == "smolvlm" else None
    splits = source.processor.get("do_image_splitting", default=True)
    return {
        "model": encoder,
        "sizing": {"kind": "split", "longest": longest, "tile": tile}
        if splits
        else {"kind": "fixed", "size": [tile, tile]},
        "video": video,
        "projector": [merged(n), linear(source.width, bias=False)],
    }


def ovis2(source: TowerSource) -> Mapped:
    """Ovis2: each merged patch becomes a softmax-weighted mean of the vectors of a table."""
    config = source.part("vision_config")
    config.only("tokenize_function", "softmax")
    norm = hf.rmsnorm(config)
    encoder = vit_like(
        config,
        patches(config, class_token=False, norm=norm, norms_patches=True, resize=None),
        attention={"bias": config.flag("qkv_bias")},
        norm=norm,
        ffn=hf.gated(config, bias=config.flag("mlp_bias")),
    )
    indicators, stride = config.size("num_visual_indicator_tokens"), config.size("hidden_stride")
    rows = config.size("vocab_size")
    if rows.value <= indicators.value:
        raise config.error(f"vocab_size {rows} leaves no vector of images", at=rows.place)
    front = encoder["front_end"]
    side = hf.bare(front["image_size"])[0] // hf.bare(front["patch_size"])[0]
    if side % stride.value:
        raise config.error(f"hidden_stride {stride} does not divide {side} patches", at=stride.place)
    merge = [merged(stride)] if stride.value > 1 else []
    neck = [
        *merge,
        linear(rows.value - indicators.value, bias=False),
        {"kind": "norm", "norm": hf.layernorm(1e-5)},
    ]
    config.report_unread_keys()
    source.whole.ignore("visual_indicator_token_ids")
    sizing = tiled(source, source.size(encoder["front_end"]["image_size"]))
    if sizing["kind"] == "canvas" and source.processor.get("use_covering_area_grid", default=True):
        sizing |= {"kind": "covering", "least": 1}
    width = source.whole.size("hidden_size", default=1536)
    table = {"kind": "table", "width": width, "beside": indicators}
    return {"model": encoder, "sizing": sizing, "projector": [*neck, table], "within": len(neck)}


def llama4(source: TowerSource) -> Mapped:
    """Llama 4: a class token, positions of both kinds, pixel shuffle and three matrices."""
    config = source.part("vision_config")
    config.only("multi_modal_projector_bias", False)
    config.only("vision_feature_select_strategy", "default", default="default")
    config.ignore("rope_parameters", "vision_feature_layer")
    norm = hf.layernorm(config.number("norm_eps"))
    front_end = patches(config, flat=True, bias=False, norm=norm, coordinates="grid", resize=None)
    position = {"kind": "grid_rope", "theta": config.number("rope_theta")}
    encoder = vit_like(config, front_end, attention={"position": position}, norm=norm)
    n, inner = _ratio(config, "pixel_shuffle_ratio", 0.5), config.size("projector_output_dim")
    # the class makes each matrix by keys of its own, which say how wide its input is
    for key, width in (
        ("intermediate_size", config.size("hidden_size").value * n * n),
        ("projector_input_dim", inner.value),
        ("vision_output_dim", inner.value),
    ):
        if config.size(key).value != width:
            raise config.error(f"{key} must be {width}, as wide as what the projector reads there")
    config.report_unread_keys()
    gelu = {"kind": "activation", "activation": "gelu"}
    steps = [
        {"kind": "drop"},
        merged(n),
        linear(inner, bias=False),
        gelu,
        linear(inner, bias=False),
        gelu,
        linear(source.width, bias=False),
    ]
    most = source.processor.size("max_patches")
    if not source.in_file:
        source.note(f"it is cut into at most {most} tiles")
    # the class has no word for no overview, and its sizes to grow to are those to shrink to
    sizing = {"kind": "canvas", "tile": source.size(front_end["image_size"]), "most": most, "nearest": "size"}
    if source.processor.get("resize_to_max_canvas"):
        sizing = {"kind": "unknown", "why": "its processor enlarges images as far as it can"}
    return {"model": encoder, "sizing": sizing, "projector": steps}
