"""Text encoders of CLIP, SigLIP and SigLIP 2, alone and with the image encoder."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Weights
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.wings.media.huggingface.whole.clip_like import (
    CLIP_LABELS,
    SIGLIP_LABELS,
    clip_labels,
    siglip2_labels,
    siglip_labels,
)

UNREAD = ("attention_dropout", "initializer_range", "initializer_factor", "projection_dim", "eos_token_id")
SCALE, MOVE = "logit_scale", "logit_bias"
"""Temperature and bias of the similarity of images and texts."""


def _text(config: Config, *, causal: bool) -> Mapped:
    """A text tower by the usual keys, without a projection."""
    config.ignore(*UNREAD, "projection_size")
    norm = hf.layernorm(config.number("layer_norm_eps"))
    attention = {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True, "causal": causal}
    layer = {
        "kind": "pre_norm",
        "attention": attention,
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    depth = config.size("num_hidden_layers")
    return {
        "kind": "causal_text_tower" if causal else "text_tower",
        "vocab_size": config.size("vocab_size"),
        "d_model": config.size("hidden_size"),
        "max_seq_len": config.size("max_position_embeddings"),
        "norm": norm,
        "embedding": {"position": {"kind": "learned"}},
        "groups": [
            {**group, "n_layers": depth.derive(group["n_layers"])}
            for group in hf.groups([layer] * config.layers())
        ],
    }


def _clip_text(config: Config) -> Mapped:
    """CLIP's text encoder; `CLIPTextModelWithProjection` projects into the shared space."""
    config.only_architectures("CLIPTextModel", "CLIPTextModelWithProjection")
    projects = config.architecture.endswith("WithProjection")
    width = config.size("projection_dim") if projects else None
    return hf.without_none({**_text(config, causal=True), "projection": width, "projection_bias": False})


def _siglip_text(config: Config, *classes: str) -> Mapped:
    """SigLIP's text encoder, with its head."""
    config.only_architectures(*(classes or ("SiglipTextModel", "Siglip2TextModel")))
    width = config.size("projection_size", default=config.size("hidden_size"))
    return {**_text(config, causal=False), "projection": width}


def _inner(config: Config, kind: str) -> Config:
    """The config of the text part."""
    text = config.inner("text_config", hf.class_defaults(kind))
    text.ignore("model_type")
    return text


def _classifies(config: Config) -> bool:
    """Whether the class is the image classifier, which has no text encoder."""
    return config.architecture.endswith("ForImageClassification")


def _clip(config: Config) -> Mapped:
    """CLIP: a causal text encoder, and the temperature of the shared space; or the image classifier."""
    if _classifies(config):
        return clip_labels(config)
    config.only_architectures("CLIPModel")
    config.ignore("vision_config", "logit_scale_init_value", "initializer_factor", "projection_dim")
    text = _inner(config, "clip_text_model")
    mapping = _text(text, causal=True)
    text.report_unread_keys()
    # a file may state null, which the class would fail with
    width = config.size("projection_dim", default=512)
    return {**mapping, "projection": width, "projection_bias": False, "unread": {SCALE: 1}}


def _siglip(config: Config) -> Mapped:
    """SigLIP: a text encoder, temperature and bias of the shared space; or the image classifier."""
    if _classifies(config):
        return siglip_labels(config) if config.model_type == "siglip" else siglip2_labels(config)
    config.only_architectures("SiglipModel", "Siglip2Model")
    config.ignore("vision_config", "initializer_factor")
    text = _inner(config, f"{config.model_type}_text_model")
    mapping = _siglip_text(text)
    text.report_unread_keys()
    return {**mapping, "unread": {SCALE: 1, MOVE: 1}}


BASE = "[text_model.]"
LAYERS = f"{BASE}encoder.layers.*"
WEIGHTS: Weights = {
    f"{BASE}embeddings.token_embedding.weight": "embedding.tokens.weight",
    f"{BASE}embeddings.position_embedding.weight": "embedding.positions.weight",
    f"{BASE}embeddings.position_ids": Auxiliary("numbers of places, which are computed"),
    **{f"{LAYERS}.self_attn.{n}_proj.*": f"layers.*.attention.{n}_proj.*" for n in "qkv"},
    f"{LAYERS}.self_attn.out_proj.*": "layers.*.attention.o_proj.*",
    f"{LAYERS}.layer_norm1.*": "layers.*.attention_norm.*",
    f"{LAYERS}.layer_norm2.*": "layers.*.ffn_norm.*",
    f"{LAYERS}.mlp.fc1.*": "layers.*.ffn.up_proj.*",
    f"{LAYERS}.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    f"{BASE}final_layer_norm.*": "final_norm.*",
    "text_projection.weight": "projection.weight",
    f"{BASE}head.*": "projection.*",
    SCALE: f"{SCALE}.weight",
    MOVE: f"{MOVE}.weight",
    "vision_model.*": Auxiliary(TOWER),
    "visual_projection.*": Auxiliary(TOWER),
}
CLIP: Weights = {**WEIGHTS, SCALE: Parts((f"{SCALE}.weight",), scalar=True)}


def _siglip_names(config: Config) -> Weights:
    """Names of stored tensors, by the class."""
    return SIGLIP_LABELS if _classifies(config) else WEIGHTS


FAMILIES = {
    "clip_text_model": Family(
        "CLIP's encoder of texts: CLIPTextConfig, CLIPTextModel, also with a projection.", _clip_text, WEIGHTS
    ),
    "siglip_text_model": Family(
        "SigLIP's encoder of texts: SiglipTextConfig, SiglipTextModel.", _siglip_text, WEIGHTS
    ),
    "siglip2_text_model": Family(
        "SigLIP 2's encoder of texts: Siglip2TextConfig, Siglip2TextModel.", _siglip_text, WEIGHTS
    ),
    "clip": Family(
        "CLIP: CLIPConfig and CLIPModel, an encoder of texts beside one of images.",
        _clip,
        lambda config: CLIP_LABELS if _classifies(config) else CLIP,
        towers=(hf.TowerRow(".dual:clip"),),
    ),
    "siglip": Family(
        "SigLIP: SiglipConfig and SiglipModel, an encoder of texts beside one of images.",
        _siglip,
        _siglip_names,
        towers=(hf.TowerRow(".dual:siglip"),),
    ),
    "siglip2": Family(
        "SigLIP 2 for images of any shape: Siglip2Config and Siglip2Model.",
        _siglip,
        _siglip_names,
        towers=(hf.TowerRow(".dual:siglip2"),),
    ),
}
