"""Encoders of images that are trained with texts: CLIP, SigLIP, SigLIP 2 and AIMv2."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isqrt
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family, class_defaults
from archcli.load.huggingface.parts.networks import gated, layernorm, mlp, rmsnorm
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights, parts_of
from archcli.load.huggingface.whole.vit_like import UNREAD, flat, labels, patches, sides, vit_like

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


def _of_vision(config: Config, prefix: str) -> Config:
    """The part of a file of both encoders that says how images are read; its class is a classifier."""
    config.only_architectures(f"{prefix}ForImageClassification")
    if not config.architecture:
        what = f"a file of {prefix}'s two encoders names no class"
        raise config.error(what, f"state architectures: [{prefix}ForImageClassification]")
    config.ignore("text_config", "projection_dim", "logit_scale_init_value", "initializer_factor", *UNREAD)
    # defaults of the part's own class, which the family of the whole cannot have
    known = class_defaults(f"{config.model_type}_vision_model")
    return config.inner("vision_config", known)


def _classified(encoder: Mapped, config: Config, *, skipped: int) -> Mapped:
    """An encoder whose mean token is classified; its own pooling runs, and is not read."""
    mean: Mapped = {"kind": "mean", "skipped": skipped}
    unused = encoder.get("pooling")
    pooling = {"kind": "beside", "pooling": mean, "unused": unused} if unused else mean
    return {**encoder, "pooling": pooling, **labels(config)}


def clip_labels(config: Config, prefix: str = "CLIP") -> Mapped:
    """CLIP's classifier of images: the mean of all patches."""
    return _classified(_clip(_of_vision(config, prefix), prefix), config, skipped=1)


def _metaclip(config: Config) -> Mapped:
    """MetaCLIP 2: CLIP's encoder of images."""
    return _clip(config, "MetaClip2")


def _metaclip_labels(config: Config) -> Mapped:
    """MetaCLIP 2's classifier of images."""
    return clip_labels(config, "MetaClip2")


def siglip_labels(config: Config) -> Mapped:
    """SigLIP's classifier of images: the mean of all tokens."""
    return _classified(_siglip(_of_vision(config, "Siglip")), config, skipped=0)


def siglip2_labels(config: Config) -> Mapped:
    """SigLIP 2's classifier of images."""
    return _classified(_siglip2(_of_vision(config, "Siglip2")), config, skipped=0)


def _mlcd(config: Config) -> Mapped:
    """MLCD: CLIP's encoder with rotary positions; the class token has trained angles."""
    config.only_architectures("MLCDVisionModel")
    config.only("num_key_value_groups", 1)
    rope = config.inner("rope_parameters", {"rope_theta": 10000.0, "rope_type": "axial"})
    rope.only("rope_type", "axial")
    norm = layernorm(config.number("layer_norm_eps"))
    position = {"kind": "grid_rope", "theta": rope.number("rope_theta"), "trained_first": True}
    front_end = patches(config, bias=False, norm=norm, position="none", coordinates="grid")
    pooling = {"kind": "first", "norm": norm}
    return vit_like(config, front_end, attention={"position": position}, final_norm=False, pooling=pooling)


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


def _below_unused(rule: Rule) -> Rule:
    """The rule with the pooling as the one that is not read."""
    if isinstance(rule, Auxiliary):
        return rule
    parts = parts_of(rule)
    ours = tuple(re.sub(r"^pooling\.", "pooling.unused.", name) for name in parts.ours)
    return replace(parts, ours=ours)


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
CLIP_LABELS: Weights = {
    **{name: _below_unused(rule) for name, rule in CLIP.items()},
    "classifier.*": "classifier.*",
}
MLCD: Weights = {**CLIP, "class_pos_emb": flat("rotary.0.angles")}
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
SIGLIP_LABELS: Weights = {
    **{name: _below_unused(rule) for name, rule in SIGLIP.items()},
    "classifier.*": "classifier.*",
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
    "metaclip_2": Family(
        "MetaCLIP 2's classifier of images: MetaClip2ForImageClassification.", _metaclip_labels, CLIP_LABELS
    ),
    "metaclip_2_vision_model": Family(
        "MetaCLIP 2's encoder of images: MetaClip2VisionConfig, MetaClip2VisionModel.", _metaclip, CLIP
    ),
    "mlcd_vision_model": Family("MLCD: MLCDVisionConfig, MLCDVisionModel.", _mlcd, MLCD),
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
