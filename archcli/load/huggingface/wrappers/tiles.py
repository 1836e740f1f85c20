"""Towers that read tiles of an image and shuffle pixels: InternVL, Idefics 3, SmolVLM, Llama 4."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, bare
from archcli.load.huggingface.parts.networks import activation, layernorm
from archcli.load.huggingface.whole.vit_like import patches, vit_like
from archcli.load.huggingface.wrappers.beside import TowerSource, linear, merged

INTERNVL = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "attention_bias": False,
    "use_qk_norm": False,
    "intermediate_size": 4096,
    "hidden_act": "gelu",
    "norm_type": "layer_norm",
    "layer_norm_eps": 1e-6,
    "image_size": [448, 448],
    "patch_size": [14, 14],
    "num_channels": 3,
    "use_mask_token": False,
    "use_absolute_position_embeddings": True,
    "layer_scale_init_value": 0.1,
    "use_mean_pooling": True,
}
SMOLVLM = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
}
LLAMA4 = {
    "hidden_size": 768,
    "hidden_act": "gelu",
    "num_hidden_layers": 34,
    "num_attention_heads": 16,
    "num_channels": 3,
    "intermediate_size": 5632,
    "image_size": 448,
    "patch_size": 14,
    "norm_eps": 1e-5,
    "pixel_shuffle_ratio": 0.5,
    "projector_output_dim": 4096,
    "multi_modal_projector_bias": False,
    "rope_theta": 10000.0,
}


def _ratio(config: Config, key: str, default: float) -> int:
    """How many patches of a side become one: 1 over a ratio such as 0.5."""
    ratio = config.number(key, default=default)
    n = round(1 / ratio.value) if ratio.value > 0 else 0
    if n < 1 or n * ratio.value != 1:
        raise config.error(f"{key} {ratio} is not 1 over a whole number", at=ratio.place)
    return n


def _frames(encoder: Mapped, size: Any, n: int) -> Mapped | None:
    """Frames of one size; None for sizes whose patches are no whole blocks of n x n, which classes refuse."""
    patch = bare(encoder["front_end"]["patch_size"])
    for side, of_patch in zip(bare(size), patch, strict=False):
        if isinstance(side, int) and isinstance(of_patch, int) and side // of_patch % n:
            return None
    return {"kind": "frames", "size": size}


def internvl(source: TowerSource) -> Mapped:
    """InternVL: InternViT's patches merged two by two, normalized, through a perceptron."""
    whole, config = source.whole, source.part("vision_config", INTERNVL)
    config.only("use_absolute_position_embeddings", True)
    config.only("use_mask_token", False)
    config.only("norm_type", "layer_norm", "rms_norm")
    whole.only("vision_feature_layer", -1, default=-1)
    whole.only("vision_feature_select_strategy", "default", default="default")
    whole.ignore("image_seq_length")
    eps = config.number("layer_norm_eps")
    rms = config.get("norm_type") == "rms_norm"
    norm = {"kind": "rmsnorm", "eps": eps} if rms else layernorm(eps)
    qk_norm = {"qk_norm": {"norm": {"kind": "rmsnorm", "eps": eps}, "over": "all"}}
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
        {"kind": "norm", "norm": layernorm(1e-5)},
        linear(source.width),
        {"kind": "activation", "activation": activation(whole, "projector_hidden_act", default="gelu")},
        linear(source.width),
    ]
    cuts = source.processor.get("crop_to_patches", default=False)
    limits = {
        "least": source.processor.get("min_patches", default=1),
        "most": source.processor.get("max_patches", default=12),
    }
    sizing = {"kind": "canvas", "tile": tile, **limits} if cuts else {"kind": "fixed", "size": tile}
    video = _frames(encoder, source.frame_size(tile), n)
    return {"model": encoder, "sizing": sizing, "video": video, "projector": steps}


def smolvlm(source: TowerSource) -> Mapped:
    """Idefics 3 and SmolVLM: SigLIP's patches merged by pixel shuffle, through one matrix."""
    config = source.part("vision_config", SMOLVLM)
    norm = layernorm(config.number("layer_norm_eps"))
    encoder = vit_like(config, patches(config, class_token=False), norm=norm)
    config.report_unread_keys()
    size = bare(encoder["front_end"]["image_size"])[0]
    tile = source.longest("max_image_size", size)
    longest = source.longest("size", 4 * size)
    frame = source.of_videos.get("max_image_size", default=None)
    frame = frame.get("longest_edge", tile) if isinstance(frame, dict) else tile
    n = source.whole.size("scale_factor", default=2)
    video = _frames(encoder, [frame, frame], n.value) if source.whole.model_type == "smolvlm" else None
    return {
        "model": encoder,
        "sizing": {"kind": "split", "longest": longest, "tile": tile},
        "video": video,
        "projector": [merged(n), linear(source.width, bias=False)],
    }


def llama4(source: TowerSource) -> Mapped:
    """Llama 4: a class token, positions of both kinds, pixel shuffle and three matrices."""
    config = source.part("vision_config", LLAMA4)
    config.only("multi_modal_projector_bias", False)
    config.only("vision_feature_select_strategy", "default", default="default")
    config.ignore("rope_parameters", "vision_feature_layer", "projector_input_dim", "vision_output_dim")
    norm = layernorm(config.number("norm_eps"))
    front_end = patches(config, flat=True, bias=False, norm=norm, coordinates="grid", resize=None)
    position = {"kind": "grid_rope", "theta": config.number("rope_theta")}
    encoder = vit_like(config, front_end, attention={"position": position}, norm=norm)
    config.report_unread_keys()
    inner, gelu = config.size("projector_output_dim"), {"kind": "activation", "activation": "gelu"}
    steps = [
        {"kind": "drop"},
        merged(_ratio(config, "pixel_shuffle_ratio", 0.5)),
        linear(inner, bias=False),
        gelu,
        linear(inner, bias=False),
        gelu,
        linear(source.width, bias=False),
    ]
    # larger images are cut into tiles, by a rule that is not known here
    sizing = {"kind": "exact", "size": front_end["image_size"]}
    return {"model": encoder, "sizing": sizing, "projector": steps}
