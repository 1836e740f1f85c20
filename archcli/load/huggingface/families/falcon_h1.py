"""Falcon-H1: FalconH1Config and FalconH1ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, is_number, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.recurrent import (
    BAMBA,
    expanded,
    mamba2,
    mamba2_names,
    mixer_width,
    step_limit,
)
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import multiplier

MODEL_TYPES = ("falcon_h1",)
OWN = {"mamba_d_head": "auto"}
UNREAD = """
    num_logits_to_keep mamba_use_mlp mlp_expansion_factor time_step_floor time_step_max time_step_min
    time_step_rank
"""


def mapping(config: Config) -> Mapped:
    """Attention and Mamba-2 side by side in every layer, with constant factors along all paths."""
    config = config.of_class(OWN)
    config.ignore(*UNREAD.split())
    layer = {
        "kind": "pre_norm",
        "mixer": {"kind": "parallel", "branches": [_attention(config), _mixer(config)]},
        "ffn": _network(config),
    }
    logits, tokens = multiplier(config, "lm_head_multiplier"), multiplier(config, "embedding_multiplier")
    return decoder(
        config,
        rmsnorm(config),
        [layer] * config.layers(),
        embedding=without_none({"scale": tokens}),
        head=None if logits is None else {"scale": logits},
    )


def _attention(config: Config) -> Mapped:
    """Attention; the factor on keys is one on scores."""
    width, keys = head_dim(config), multiplier(config, "key_multiplier")
    return attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        scale=None if keys is None else keys.derive(keys.value * width.value**-0.5),
        in_multiplier=multiplier(config, "attention_in_multiplier"),
        out_multiplier=multiplier(config, "attention_out_multiplier"),
    )


def _mixer(config: Config) -> Mapped:
    """Mamba-2, mamba_d_ssm wide; the gated norm only if mamba_rms_norm says so."""
    inner = expanded(config) if config.stated_null("mamba_d_ssm") else config.size("mamba_d_ssm")
    sides = {"in": config.nullable_flag("mamba_proj_bias"), "out": config.nullable_flag("projectors_bias")}
    biased = [side for side, flag in sides.items() if flag]
    factors = _factors(config, "ssm_multipliers", 5)
    mapping = mamba2(
        config,
        BAMBA,
        mixer_width(config, BAMBA, inner),
        bias=True if len(biased) == len(sides) else biased or None,
        step_limit=step_limit(config),
        multipliers=factors,
        in_multiplier=multiplier(config, "ssm_in_multiplier"),
        out_multiplier=multiplier(config, "ssm_out_multiplier"),
    )
    after = config.nullable_flag("mamba_norm_before_gate")
    norm = {**mapping["norm"], "gate": after.derive("after" if after else "before")}
    return {**mapping, "norm": norm if config.nullable_flag("mamba_rms_norm") else None}


def _network(config: Config) -> Mapped:
    gate, down = _factors(config, "mlp_multipliers", 2) or (None, None)
    mapping = gated(config, bias=config.flag("mlp_bias"))
    return without_none({**mapping, "gate_multiplier": gate, "down_multiplier": down})


def _factors(config: Config, key: str, count: int) -> list[ConfigValue[float]] | None:
    """So many numbers above 0; None where they are all 1, as null means too."""
    stated = config.value(key, default=[1.0] * count)
    factors = stated.value
    if not isinstance(factors, list) or len(factors) != count:
        raise config.error(f"{key} must be {count} numbers, not {short_repr(factors)}", at=stated.place)
    wrong = [factor for factor in factors if not is_number(factor) or factor <= 0]
    if wrong:
        raise config.error(f"{key} must be numbers above 0, not {short_repr(wrong[0])}", at=stated.place)
    return None if all(factor == 1 for factor in factors) else [stated.derive(float(f)) for f in factors]


LAYER = "[model.]layers.*"
NETWORK = ("gate_proj", "up_proj", "down_proj")
SELF = f"{LAYER}.self_attn"
WEIGHTS: Weights = {
    **{name: LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **{f"{SELF}.{name}_proj.*": f"layers.*.mixer.attention.{name}_proj.*" for name in "qkvo"},
    **mamba2_names(f"{LAYER}.mamba", "layers.*.mixer.recurrent"),
    **{
        f"{LAYER}.feed_forward.{name}_proj.*": f"layers.*.ffn.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
    "[model.]final_layernorm.weight": "final_norm.weight",
}
