"""Encoders of images that are trained with texts: CLIP, SigLIP, SigLIP 2 and AIMv2."""

from __future__ import annotations

from math import isqrt
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.networks import gated, layernorm, mlp, rmsnorm
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights
from archcli.load.huggingface.whole.vit_like import flat, patches, sides, vit_like

FRONT = "front_end"
PLACES = Auxiliary("numbers of places, which are computed")


def _clip(config: Config, prefix: str = "CLIP") -> Mapped:
    """CLIP: a norm behind the positions, none behind the layers but on the class token."""
    config.only_architectures(f"{prefix}VisionModel", f"{prefix}VisionModelWithProjection")
    norm = layernorm(config.number("layer_norm_eps"))
    width = config.size("projection_dim")
    projected = config.architecture.endswith("WithProjection")
    return vit_like(
        config,
        patches(config, bias=False, norm=norm),
        final_norm=False,
        pooling={"kind": "first", "norm": norm},
        projection=width if projected else None,
    )


def _altclip(config: Config) -> Mapped:
    """AltCLIP: CLIP's encoder of images."""
    return _clip(config, "AltCLIP")


def _chinese_clip(config: Config) -> Mapped:
    """Chinese-CLIP: CLIP's encoder of images."""
    return _clip(config, "ChineseCLIP")


def _head(config: Config, norm: Mapped) -> Mapped | None:
    """SigLIP's pooler: attention of one trained query, and a network."""
    if not config.flag("vision_use_head").value:
        return None
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act")
    return {"kind": "attention", "n_heads": config.size("num_attention_heads"), "norm": norm, "ffn": ffn}


def _siglip(config: Config) -> Mapped:
    """SigLIP: no class token; attention of one trained query pools."""
    config.only_architectures("SiglipVisionModel")
    norm = layernorm(config.number("layer_norm_eps"))
    return vit_like(config, patches(config, class_token=False), pooling=_head(config, norm))


def _siglip2(config: Config) -> Mapped:
    """SigLIP 2 NaFlex: a square table of positions that is resized to the grid of each image."""
    config.only_architectures("Siglip2VisionModel")
    patch, places = sides(config, "patch_size"), config.size("num_patches")
    side = isqrt(places.value)
    if side * side != places.value:
        raise config.error(
            f"num_patches {places} is no square", "its table of positions is one", places.place
        )
    norm = layernorm(config.number("layer_norm_eps"))
    image = places.derive([side * patch.value[0], side * patch.value[1]])
    front_end = patches(
        config, image_size=image, flat=True, class_token=False, resize="bilinear", antialias=True
    )
    return vit_like(config, front_end, pooling=_head(config, norm))


def _aimv2(config: Config) -> Mapped:
    """AIMv2: RMSNorm, gated networks, a norm between patches and positions."""
    config.only_architectures("Aimv2VisionModel")
    norm, bias = rmsnorm(config), config.flag("qkv_bias").value
    native = config.flag("is_native").value
    if native:
        what = "is_native: positions of sines in two dimensions are not supported yet"
        raise config.error(what, at=config.place("is_native"))
    pooling: Any = None
    if config.flag("use_head").value:
        heads = config.size("num_attention_heads")
        pooling = {"kind": "attention", "n_heads": heads, "projects_query": False, "bias": bias}
    front_end = patches(config, class_token=False, norm=norm, norms_patches=True)
    front_end["resize"] = None
    ffn = gated(config, bias=config.flag("mlp_bias"))
    return vit_like(config, front_end, attention={"bias": bias}, norm=norm, ffn=ffn, pooling=pooling)


def _layers(theirs: str) -> dict[str, Rule]:
    """Names of the tensors of CLIP's and SigLIP's layers below this prefix."""
    return {
        **{f"{theirs}.self_attn.{n}_proj.*": f"layers.*.attention.{n}_proj.*" for n in "qkv"},
        f"{theirs}.self_attn.out_proj.*": "layers.*.attention.o_proj.*",
        f"{theirs}.layer_norm1.*": "layers.*.attention_norm.*",
        f"{theirs}.layer_norm2.*": "layers.*.ffn_norm.*",
        f"{theirs}.mlp.fc1.*": "layers.*.ffn.up_proj.*",
        f"{theirs}.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    }


CLIP: Weights = {
    "[vision_model.]embeddings.class_embedding": f"{FRONT}.class_token.weight",
    "[vision_model.]embeddings.patch_embedding.weight": f"{FRONT}.patches.weight",
    "[vision_model.]embeddings.position_embedding.weight": f"{FRONT}.positions.weight",
    "[vision_model.]embeddings.position_ids": PLACES,
    "[vision_model.]pre_layrnorm.*": f"{FRONT}.norm.*",
    **_layers("[vision_model.]encoder.layers.*"),
    "[vision_model.]post_layernorm.*": "pooling.norm.*",
    "visual_projection.weight": "projection.weight",
}
SIGLIP: Weights = {
    "[vision_model.]embeddings.patch_embedding.*": f"{FRONT}.patches.*",
    "[vision_model.]embeddings.position_embedding.weight": f"{FRONT}.positions.weight",
    "[vision_model.]embeddings.position_ids": PLACES,
    **_layers("[vision_model.]encoder.layers.*"),
    "[vision_model.]post_layernorm.*": "final_norm.*",
    "[vision_model.]head.probe": flat("pooling.probe.weight"),
    "[vision_model.]head.attention.in_proj_weight": Parts(tuple(f"pooling.{n}_proj.weight" for n in "qkv")),
    "[vision_model.]head.attention.in_proj_bias": Parts(tuple(f"pooling.{n}_proj.bias" for n in "qkv")),
    "[vision_model.]head.attention.out_proj.*": "pooling.o_proj.*",
    "[vision_model.]head.layernorm.*": "pooling.norm.*",
    "[vision_model.]head.mlp.fc1.*": "pooling.ffn.up_proj.*",
    "[vision_model.]head.mlp.fc2.*": "pooling.ffn.down_proj.*",
}
AIMV2: Weights = {
    "embeddings.patch_embed.*": f"{FRONT}.patches.*",
    "embeddings.rms_norm.*": f"{FRONT}.norm.*",
    "embeddings.position_embedding.weight": f"{FRONT}.positions.weight",
    **{f"encoder.layers.*.attention.{n}_proj.*": f"layers.*.attention.{n}_proj.*" for n in "qkv"},
    "encoder.layers.*.attention.out_proj.*": "layers.*.attention.o_proj.*",
    **{f"encoder.layers.*.ffn.{n}_proj.*": f"layers.*.ffn.{n}_proj.*" for n in ("gate", "up", "down")},
    "encoder.layers.*.rms_norm1.*": "layers.*.attention_norm.*",
    "encoder.layers.*.rms_norm2.*": "layers.*.ffn_norm.*",
    "rms_norm.*": "final_norm.*",
    "head.cls_token": flat("pooling.probe.weight"),
    "head.k_proj.*": "pooling.k_proj.*",
    "head.v_proj.*": "pooling.v_proj.*",
    "head.output_proj.*": "pooling.o_proj.*",
}

FAMILIES = {
    "altclip_vision_model": Family(
        "AltCLIP's encoder of images: AltCLIPVisionConfig, AltCLIPVisionModel.", _altclip, CLIP
    ),
    "chinese_clip_vision_model": Family(
        "Chinese-CLIP's encoder of images: ChineseCLIPVisionConfig, ChineseCLIPVisionModel.",
        _chinese_clip,
        CLIP,
    ),
    "clip_vision_model": Family("CLIP's encoder of images: CLIPVisionConfig, CLIPVisionModel.", _clip, CLIP),
    "siglip_vision_model": Family(
        "SigLIP's encoder of images: SiglipVisionConfig, SiglipVisionModel.", _siglip, SIGLIP
    ),
    "siglip2_vision_model": Family(
        "SigLIP 2's encoder of images of any shape (NaFlex): Siglip2VisionConfig.", _siglip2, SIGLIP
    ),
    "aimv2_vision_model": Family(
        "AIMv2's encoder of images: Aimv2VisionConfig, Aimv2VisionModel.", _aimv2, AIMV2
    ),
}
