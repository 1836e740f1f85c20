"""Image encoders of CLIP and SigLIP, alone and as classifiers: mappings and tensor names."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isqrt

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import class_defaults
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights, parts_of
from archcli.wings.media.huggingface.whole.vit_like import UNREAD, flat, labels, patches, sides, vit_like

FRONT = "front_end"
PLACES = Auxiliary("numbers of places, which are computed")


def clip(config: Config, prefix: str = "CLIP") -> Mapped:
    """CLIP: a norm after the positions; the last norm is applied to the class token alone."""
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
    """The vision part of a file with both encoders, for an image classifier."""
    config.only_architectures(f"{prefix}ForImageClassification")
    if not config.architecture:
        what = f"a file of {prefix}'s two encoders names no class"
        raise config.error(what, f"state architectures: [{prefix}ForImageClassification]")
    config.ignore("text_config", "projection_dim", "logit_scale_init_value", "initializer_factor", *UNREAD)
    # defaults of the class of the vision part: those of the whole class are other keys
    known = class_defaults(f"{config.model_type}_vision_model")
    return config.inner("vision_config", known)


def _classified(encoder: Mapped, config: Config, *, skipped: int) -> Mapped:
    """An encoder whose mean token is classified; its pooling runs too, and is not read."""
    mean: Mapped = {"kind": "mean", "skipped": skipped}
    unused = encoder.get("pooling")
    pooling = {"kind": "beside", "pooling": mean, "unused": unused} if unused else mean
    return {**encoder, "pooling": pooling, **labels(config)}


def clip_labels(config: Config, prefix: str = "CLIP") -> Mapped:
    """CLIP's classifier of images: the mean of all patches."""
    return _classified(clip(_of_vision(config, prefix), prefix), config, skipped=1)


def siglip_labels(config: Config) -> Mapped:
    """SigLIP's classifier of images: the mean of all tokens."""
    return _classified(siglip(_of_vision(config, "Siglip")), config, skipped=0)


def siglip2_labels(config: Config) -> Mapped:
    """SigLIP 2's classifier of images."""
    return _classified(siglip2(_of_vision(config, "Siglip2")), config, skipped=0)


def _head(config: Config, norm: Mapped) -> Mapped | None:
    """SigLIP's pooler: attention of one trained query, and a feed-forward network."""
    if not config.flag("vision_use_head").value:
        return None
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act")
    return {"kind": "attention", "n_heads": config.size("num_attention_heads"), "norm": norm, "ffn": ffn}


def siglip(config: Config) -> Mapped:
    """SigLIP: no class token; attention pooling with one trained query."""
    config.only_architectures("SiglipVisionModel")
    norm = layernorm(config.number("layer_norm_eps"))
    return vit_like(config, patches(config, class_token=False), pooling=_head(config, norm))


def siglip2(config: Config) -> Mapped:
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
    """The rule for weights of the pooling that is not read, `pooling.unused`."""
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
