"""Towers whose vectors a few linear layers project: LLaVA, Pixtral, Mistral 3, Gemma 3, PaliGemma."""

from __future__ import annotations

from math import isqrt
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, bare
from archcli.load.huggingface.parts.networks import activation, gated
from archcli.load.huggingface.whole.vit_like import patches, vit_like
from archcli.load.huggingface.wrappers.beside import TowerSource, linear, merged

CLIP_L = {
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 336,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
PIXTRAL = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_channels": 3,
    "image_size": 1024,
    "patch_size": 16,
    "hidden_act": "gelu",
    "rope_theta": 10000.0,
}


def pixtral(source: TowerSource, key: str) -> tuple[Mapped, Mapped]:
    """Pixtral's encoder and what it makes of an image: RMSNorm, gated networks, rotary rows and columns."""
    config = source.part(key, PIXTRAL)
    config.ignore("head_dim", "rope_parameters")
    norm = {"kind": "rmsnorm", "eps": 1e-5}
    front_end = patches(config, bias=False, class_token=False, position="none", coordinates="grid", norm=norm)
    position = {"kind": "grid_rope", "theta": config.number("rope_theta")}
    encoder = vit_like(
        config,
        front_end,
        attention={"bias": False, "position": position},
        norm=norm,
        ffn=gated(config),
        final_norm=False,
    )
    config.report_unread_keys()
    longest = source.longest("size", bare(front_end["image_size"])[0])
    sizing = {
        "kind": "longest",
        "longest": longest,
        "patch": bare(front_end["patch_size"])[0],
        "breaks": True,
    }
    return encoder, sizing


def _perceptron(source: TowerSource, *, bias: Any = True) -> list[Mapped]:
    """Two linear layers with an activation between them."""
    act = activation(source.whole, "projector_hidden_act", default="gelu")
    width = source.width
    return [linear(width, bias=bias), {"kind": "activation", "activation": act}, linear(width, bias=bias)]


def _chosen(whole: Config, default: str = "default", layer: int = -2) -> list[Mapped]:
    """The step that leaves class tokens out; one layer alone may be read."""
    taken = whole.value("vision_feature_layer", default=layer)
    if not isinstance(taken.value, int):
        what = "vision_feature_layer: vectors of several layers side by side are not known"
        raise whole.error(what, at=taken.place)
    strategy = whole.value("vision_feature_select_strategy", default=default)
    whole.only("vision_feature_select_strategy", "default", "full", default=default)
    return [{"kind": "drop"}] if strategy.value == "default" else []


def llava(source: TowerSource) -> Mapped:
    """LLaVA: the vectors of CLIP's patches, or Pixtral's, through a perceptron."""
    whole = source.whole
    drop = _chosen(whole)
    bias = whole.flag("multimodal_projector_bias", default=True)
    stated = whole.get("vision_config", default={})
    if isinstance(stated, dict) and stated.get("model_type") == "pixtral":
        encoder, sizing = pixtral(source, "vision_config")
    else:
        encoder = source.encoder("vision_config", "clip_vision_model", CLIP_L)
        sizing = {"kind": "fixed", "size": source.size(encoder["front_end"]["image_size"])}
    return {"model": encoder, "sizing": sizing, "projector": [*drop, *_perceptron(source, bias=bias)]}


def _pinned(source: TowerSource, drop: list[Mapped], most: int = 0) -> Mapped:
    encoder = source.encoder("vision_config", "clip_vision_model", CLIP_L)
    pins = source.processor.get("image_grid_pinpoints", default=None) or source.whole.get(
        "image_grid_pinpoints"
    )
    source.whole.ignore("image_grid_pinpoints", "use_image_newline_parameter")
    tile = bare(source.size(encoder["front_end"]["image_size"]))[0]
    return {
        "model": encoder,
        "sizing": {"kind": "pinned", "tile": tile, "sizes": pins, "most": most},
        "projector": [*drop, *_perceptron(source)],
        "newline": True,
    }


def llava_next(source: TowerSource) -> Mapped:
    """LLaVA-1.6: tiles of the size that keeps most of the image, and an overview."""
    return _pinned(source, _chosen(source.whole))


def llava_onevision(source: TowerSource) -> Mapped:
    """LLaVA-OneVision: as LLaVA-1.6, with SigLIP and at most nine tiles' worth of tokens."""
    ratio = source.whole.value("vision_aspect_ratio", default="anyres_max_9")
    most = str(ratio.value).removeprefix("anyres_max_")
    if not most.isdecimal():
        raise source.whole.error(f"vision_aspect_ratio {ratio.value!r} is not known", at=ratio.place)
    tower = _pinned(source, _chosen(source.whole, "full", -1), int(most))
    own = tower["model"]["front_end"]["image_size"]
    size = source.frame_size(own)
    if bare(size) != bare(own):  # the class pools the tower's own rows and columns
        return tower
    # rows and columns of a frame are halved, and one newline stands behind all frames
    return {**tower, "video": {"kind": "frames", "size": size, "pooled": 2, "ends": 1}}


def mistral3(source: TowerSource) -> Mapped:
    """Mistral 3: Pixtral's vectors normalized, four of them merged, through a perceptron."""
    whole = source.whole
    encoder, sizing = pixtral(source, "vision_config")
    drop = _chosen(whole, "full", -1)
    n = whole.size("spatial_merge_size", default=2)
    bias = whole.flag("multimodal_projector_bias", default=False)
    eps = source.text.get("rms_norm_eps", 1e-6)
    steps = [
        *drop,
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps}},
        merged(n),
        linear(encoder["d_model"], bias=False),
        *_perceptron(source, bias=bias),
    ]
    return {"model": encoder, "sizing": sizing, "projector": steps}


SIGLIP = {"model_type": "siglip_vision_model"}


def gemma3(source: TowerSource) -> Mapped:
    """Gemma 3: means of blocks of SigLIP's patches, normalized, through one matrix."""
    encoder = source.encoder("vision_config", "siglip_vision_model", SIGLIP)
    count = source.whole.size("mm_tokens_per_image", default=256)
    front = encoder["front_end"]
    side = bare(front["image_size"])[0] // bare(front["patch_size"])[0]
    n = side // isqrt(count.value)
    if n == 0:
        what = f"mm_tokens_per_image {count.value} is more than the {side**2} patches of an image"
        raise source.whole.error(what, at=count.place)
    eps = encoder["norm"]["eps"]
    steps = [
        {"kind": "pool", "block": [n, n]},
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": eps, "offset": 1}},
        linear(source.width, bias=False),
    ]
    return {
        "model": encoder,
        "sizing": {"kind": "fixed", "size": source.size(front["image_size"])},
        "projector": steps,
    }


def paligemma(source: TowerSource) -> Mapped:
    """PaliGemma: SigLIP's patches through one linear layer."""
    encoder = source.encoder("vision_config", "siglip_vision_model", SIGLIP)
    source.whole.ignore("projection_dim", "num_image_tokens")
    size = source.size(encoder["front_end"]["image_size"])
    width = source.whole.inner("vision_config", {}).size("projection_dim", default=2048)
    return {
        "model": encoder,
        "sizing": {"kind": "fixed", "size": size},
        "projector": [linear(width)],
    }
