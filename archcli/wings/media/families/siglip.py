"""Encoders of images that are trained with texts: CLIP, SigLIP, SigLIP 2 and AIMv2."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.wings.media.huggingface.whole.clip_like import (
    CLIP,
    CLIP_LABELS,
    FRONT,
    SIGLIP,
    clip,
    clip_labels,
    siglip,
    siglip2,
)
from archcli.wings.media.huggingface.whole.vit_like import flat, patches, vit_like


def _metaclip(config: Config) -> Mapped:
    """MetaCLIP 2: CLIP's encoder of images."""
    return clip(config, "MetaClip2")


def _metaclip_labels(config: Config) -> Mapped:
    """MetaCLIP 2's classifier of images."""
    return clip_labels(config, "MetaClip2")


def _mlcd(config: Config) -> Mapped:
    """MLCD: CLIP's encoder with rotary positions; the class token has trained angles."""
    config.only_architectures("MLCDVisionModel")
    config.only("num_key_value_groups", 1)
    rope = config.inner("rope_parameters", {"rope_theta": 10000.0, "rope_type": "axial"})
    rope.only("rope_type", "axial")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    position = {"kind": "grid_rope", "theta": rope.number("rope_theta"), "trained_first": True}
    front_end = patches(config, bias=False, norm=norm, position="none", coordinates="grid")
    pooling = {"kind": "first", "norm": norm}
    return vit_like(config, front_end, attention={"position": position}, final_norm=False, pooling=pooling)


def _altclip(config: Config) -> Mapped:
    """AltCLIP: CLIP's encoder of images."""
    return clip(config, "AltCLIP")


def _chinese_clip(config: Config) -> Mapped:
    """Chinese-CLIP: CLIP's encoder of images."""
    return clip(config, "ChineseCLIP")


def _aimv2(config: Config) -> Mapped:
    """AIMv2: RMSNorm, gated networks, a norm between patches and positions."""
    config.only_architectures("Aimv2VisionModel")
    norm, bias = hf.rmsnorm(config), config.flag("qkv_bias").value
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
    ffn = hf.gated(config, bias=config.flag("mlp_bias"))
    return vit_like(config, front_end, attention={"bias": bias}, norm=norm, ffn=ffn, pooling=pooling)


MLCD: Weights = {**CLIP, "class_pos_emb": flat("rotary.0.angles")}
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
    "clip_vision_model": Family("CLIP's encoder of images: CLIPVisionConfig, CLIPVisionModel.", clip, CLIP),
    "siglip_vision_model": Family(
        "SigLIP's encoder of images: SiglipVisionConfig, SiglipVisionModel.", siglip, SIGLIP
    ),
    "siglip2_vision_model": Family(
        "SigLIP 2's encoder of images of any shape (NaFlex): Siglip2VisionConfig.", siglip2, SIGLIP
    ),
    "aimv2_vision_model": Family(
        "AIMv2's encoder of images: Aimv2VisionConfig, Aimv2VisionModel.", _aimv2, AIMV2
    ),
}
