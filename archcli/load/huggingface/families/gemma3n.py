"""Gemma 3n, its text part: Gemma3nTextConfig and Gemma3nForCausalLM.

Files of the models with vision and audio nest it in text_config.
"""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import (
    FULL,
    PER_HEAD,
    SLIDING,
    attention,
    check_window,
    head_dim,
    layer_types,
    optional_number,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.gemma_like import (
    NAMES,
    kv_sources,
    near_and_far,
    per_layer_embedding,
    without_own_keys,
)

MODEL_TYPES = ("gemma3n_text",)

OWN = {"intermediate_size": 16384, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0}
PERIOD, SPARSE_LAYERS, SPARSITY = 5, 10, 0.95
"""By default each fifth layer is global, and the first ten of more than ten have sparse gates."""


def mapping(config: Config) -> Mapped:
    """Alternating updates, learned augmented residuals, per-layer embeddings, sparse gates.

    The last layers read the keys and values of earlier ones.
    """
    config = config.of_class(OWN)
    config.ignore("altup_coef_clip")  # bounds weights while they are trained
    count, width, types = config.layers(), head_dim(config), _types(config)
    check_window(config)
    near, far = near_and_far(config, width)
    norm, bias, block = rmsnorm(config), config.flag("attention_bias"), _block(config)

    def layer(kind: str, source: int | None, d_ff: Any, sparsity: Any) -> Mapped:
        own = {"kv_from": source} if source is not None else {"v_norm": {**norm, "weight": False}}
        window = None if kind == FULL else config.size("sliding_window")
        place = {"position": far if kind == FULL else near, "window": window}
        attend = attention(config, width, bias=bias, qk_norm=PER_HEAD, scale=1.0, **place, **own)
        ffn = {"kind": "glu", "d_ff": d_ff, "activation": block["per_layer_gate"], "sparsity": sparsity}
        return {**block, "attention": attend, "ffn": ffn}

    widths, shares = _widths(config, count), _sparsity(config, count)
    layers = [layer(*entry) for entry in zip(types, kv_sources(config, types), widths, shares, strict=True)]
    cap = optional_number(config, "final_logit_softcapping")
    return decoder(
        config,
        norm,
        layers,
        embedding={"scale": "sqrt_d_model"},
        per_layer_embedding=per_layer_embedding(config),
        head=None if cap is None else {"softcap": cap},
    )


def _block(config: Config) -> Mapped:
    """A layer without its attention and its network; the class holds a scale that it may not read."""
    corrects, width = config.flag("altup_correct_scale"), config.size("hidden_size")
    return {
        "kind": "altup",
        "inputs": config.size("altup_num_inputs"),
        "active": config.count("altup_active_idx"),
        "corrects_scale": corrects,
        "laurel_rank": config.size("laurel_rank"),
        "per_layer_gate": activation(config, "hidden_activation"),
        **({} if corrects else {"unread": {"altup_output_scale": width}}),
    }


def _types(config: Config) -> list[str]:
    return layer_types(config, [FULL if (i + 1) % PERIOD == 0 else SLIDING for i in range(config.layers())])


def _widths(config: Config, count: int) -> list[ConfigValue[int]]:
    """The width of each layer's network: a number for all, or a list."""
    stated = config.value("intermediate_size")
    if not isinstance(stated.value, list):
        return [config.size("intermediate_size")] * count
    return [
        config.as_size("intermediate_size", stated.derive(width)) for width in _each(config, stated, count)
    ]


def _sparsity(config: Config, count: int) -> list[ConfigValue[Any]]:
    """The share of each layer's gates that is cut off."""
    few = [SPARSITY if i < SPARSE_LAYERS < count else 0.0 for i in range(count)]
    stated = config.value("activation_sparsity_pattern", default=few)
    if not isinstance(stated.value, list):
        what = f"activation_sparsity_pattern must be a list, not {short_repr(stated.value)}"
        raise config.error(what, at=stated.place)
    return [stated.derive(share) for share in _each(config, stated, count)]


def _each(config: Config, stated: ConfigValue[Any], count: int) -> list[Any]:
    """The entries of a list that must be as long as there are layers."""
    if len(stated.value) != count:
        what = f"a list of {len(stated.value)} entries for {count} layers"
        raise config.error(what, "the class needs one for each", stated.place)
    entries: list[Any] = stated.value
    return entries


WEIGHTS: Weights = {
    **NAMES,
    "[model.]altup_projections.*.weight": "altup_in_*.weight",
    "[model.]altup_unembed_projections.*.weight": "altup_out_*.weight",
    "[model.]layers.*.altup.correct_output_scale": "layers.*.altup_output_scale.weight",
    "[model.]layers.*.altup.correction_coefs.weight": "layers.*.altup_correction.weight",
    "[model.]layers.*.altup.prediction_coefs.weight": "layers.*.altup_prediction.weight",
    "[model.]layers.*.altup.modality_router.weight": "layers.*.altup_router.weight",
    "[model.]layers.*.altup.router_norm.weight": "layers.*.altup_norm.weight",
    "[model.]layers.*.laurel.linear_left.weight": "layers.*.laurel_down.weight",
    "[model.]layers.*.laurel.linear_right.weight": "layers.*.laurel_up.weight",
    "[model.]layers.*.laurel.post_laurel_norm.weight": "layers.*.laurel_norm.weight",
}


def weights(config: Config) -> Weights:
    """The names, with those of keys and values that files hold for layers which read others'."""
    config = config.of_class(OWN)
    return {**WEIGHTS, **without_own_keys(kv_sources(config, _types(config)))}
