"""ViT-like image encoders: patches, equal layers, a final norm, a pooler or a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Rule, Weights

NOTHING: Mapping[str, Any] = MappingProxyType({})
CLASSIFIER = "ForImageClassification"
FRONT = "front_end"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
UNREAD = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "attention_dropout",
    "drop_path_rate",
    "initializer_range",
    "initializer_factor",
    "encoder_stride",
    "_out_features",
    "_out_indices",
    "out_features",
    "out_indices",
    "stage_names",
    "apply_layernorm",
    "label2id",
    "reshape_hidden_states",
    "problem_type",
    "chunk_size_feed_forward",
)
"""Keys that change no count and no feature of a plain forward."""
UNREAD_TOKEN = "mask_token"  # noqa: S105 the name of a vector


def sides(config: Config, name: str) -> ConfigValue[list[int]]:
    """Height and width, of one number or a pair."""
    entry = config.value(name)
    if not isinstance(entry.value, list | tuple):
        size = config.size(name)
        return size.derive([size.value, size.value])
    if len(entry.value) != 2:  # noqa: PLR2004 height and width
        what = f"{name} must be a number or a pair, not {short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    return entry.derive([config.as_size(name, entry.derive(side)).value for side in entry.value])


def patches(config: Config, **more: Any) -> Mapped:
    """A front end of patches by the usual keys; `more` are further fields."""
    front_end = {
        "kind": "patches",
        "image_size": more.pop("image_size", None) or sides(config, "image_size"),
        "patch_size": sides(config, "patch_size"),
        "in_channels": config.size("num_channels"),
        **more,
    }
    return without_none(front_end)


def vit_like(
    config: Config,
    front_end: Mapped,
    *,
    attention: Mapping[str, Any] = NOTHING,
    norm: Mapped | None = None,
    ffn: Mapped | None = None,
    layer: Mapping[str, Any] = NOTHING,
    **more: Any,
) -> Mapped:
    """A pre-norm encoder with full attention; options replace parts, `more` are fields of the model."""
    config.ignore(*UNREAD)
    norm = norm or layernorm(config.number("layer_norm_eps"))
    block = {
        "kind": "pre_norm",
        "attention": {
            "kind": "mha",
            "n_heads": config.size("num_attention_heads"),
            "bias": True,
            "causal": False,
            **attention,
        },
        "ffn": ffn or mlp(config, config.size("intermediate_size"), "hidden_act"),
        **layer,
    }
    depth = config.size("num_hidden_layers")
    return without_none(
        {
            "kind": "media_encoder",
            "d_model": config.size("hidden_size"),
            "norm": norm,
            "front_end": front_end,
            **more,
            "groups": [
                {**group, "n_layers": depth.derive(group["n_layers"])}
                for group in groups([block] * config.layers())
            ],
        }
    )


def labels(config: Config) -> Mapped:
    """The number of the classifier's labels; {} without a classifier."""
    if config.get("num_labels", default=None) == 0:
        return {}
    return {"n_labels": config.labels()}


def unread_token(width: ConfigValue[int]) -> Mapped:
    """The `mask_token` of masked pre-training, which a plain pass does not read."""
    return {"unread": {UNREAD_TOKEN: width}}


def flat(ours: str, axes: int = 1) -> Parts:
    """The rule for a tensor stored with `axes` more axes of length 1 in front."""
    return Parts((ours,), flat=axes)


def qkv_biases(config: Config) -> bool | list[str]:
    """The biases of attention by `qkv_bias`; the output projection always has one."""
    return True if config.flag("qkv_bias").value else ["o"]


def class_ending(config: Config, prefix: str, *endings: str) -> str:
    """The class of the file without its prefix: `ForImageClassification`, or `Model` where none is named."""
    config.only_architectures(*(prefix + ending for ending in ("Model", *endings)))
    return config.architecture.removeprefix(prefix) or "Model"


def named_front(theirs: str) -> Weights:
    """Names of the front end's tensors below this prefix."""
    return {
        f"{theirs}.cls_token": flat(f"{FRONT}.class_token.weight", 2),
        f"{theirs}.position_embeddings": flat(f"{FRONT}.positions.weight"),
        f"{theirs}.patch_embeddings.projection.*": f"{FRONT}.patches.*",
    }


def named_layers(layers: str, renames: dict[str, str]) -> dict[str, Rule]:
    """Names of the layers' tensors, `renames` from theirs to ours."""
    return {f"{layers}.{theirs}": f"layers.*.{ours}" for theirs, ours in renames.items()}


MODERN = {f"attention.{name}.*": f"attention.{name}.*" for name in PROJECTIONS} | {
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
}
NORMS = {"layernorm_before.*": "attention_norm.*", "layernorm_after.*": "ffn_norm.*"}
STORED = {
    **{
        f"attention.attention.{theirs}.*": f"attention.{ours}_proj.*"
        for theirs, ours in {"query": "q", "key": "k", "value": "v"}.items()
    },
    "attention.output.dense.*": "attention.o_proj.*",
    "intermediate.dense.*": "ffn.up_proj.*",
    "output.dense.*": "ffn.down_proj.*",
}
"""Names in files that older transformers wrote."""
