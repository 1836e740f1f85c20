"""Decoders of Mamba and attention: Jamba, Bamba, Falcon-H1."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.weights.hybrid import INPUT_NORMS, by_kinds, first_norms
from archcli.load.huggingface.whole.mamba_like import JAMBA, mamba, mixer_weights


def _jamba(config: Config) -> Mapped:
    """Pre-norm, Mamba-1 with norms inside, attention without positions, SwiGLU or experts of its width."""
    config.only("mamba_inner_layernorms", True, default=True)
    config.ignore("calc_logits_for_entire_prompt", "num_logits_to_keep", "sliding_window")
    norm, count = hf.rmsnorm(config), config.layers()
    mixers = {
        True: {"attention": hf.attention(config, hf.head_dim(config), position={"kind": "none"})},
        False: {"mixer": mamba(config, dt_norm=norm)},
    }
    blocks = {attends: {"kind": "pre_norm", **mixer} for attends, mixer in mixers.items()}
    layers = [blocks[attends] for attends in _jamba_every(config, "attn_layer", count)]
    # the class builds a plain network for a mixture of one expert
    routed = [
        is_routed and config.size("num_experts").value > 1
        for is_routed in _jamba_every(config, "expert_layer", count)
    ]
    layers = hf.with_networks(layers, routed, lambda: hf.gated(config), lambda: _jamba_experts(config))
    return hf.decoder(config, norm, layers)


def _jamba_every(config: Config, name: str, count: int) -> list[bool]:
    """For each layer, whether it is the one of its period at the offset.

    Of period 8 and offset 4 these are layers 4, 12, 20, …
    """
    period, offset = config.size(f"{name}_period"), config.count(f"{name}_offset")
    if offset.value >= period.value:
        what = f"{name}_offset {offset} must be smaller than {name}_period {period}"
        raise config.error(what, at=offset.place)
    return [index % period.value == offset.value for index in range(count)]


def _jamba_experts(config: Config) -> Mapped:
    return hf.experts(config, width="intermediate_size", router={"normalized": False})


LAYER = "[model.]layers.*"
JAMBA_SHARED: Weights = {
    **{
        name: rule
        for name, rule in hf.LLAMA.items()
        if name.startswith(("[model.]embed", "lm_head", "[model.]layers.*.self_attn."))
    },
    **{
        name.replace(".mlp.gate.", ".mlp.router.").replace(".mlp.", ".feed_forward."): rule
        for name, rule in {**hf.LLAMA, **hf.EXPERTS}.items()
        if ".mlp." in name
    },
    "[model.]final_layernorm.weight": "final_norm.weight",
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **mixer_weights(f"{LAYER}.mamba"),
    **{
        f"{LAYER}.mamba.{name}_layernorm.weight": f"layers.*.mixer.{name}_norm.weight"
        for name in ("dt", "b", "c")
    },
}
"""Names that all layers share."""


def _jamba_weights(config: Config) -> Weights:
    """Weight names; a layer's first norm is called by the key of its mixer."""
    attends = _jamba_every(config, "attn_layer", config.layers())
    keys = ["attention" if has_attention else "mixer" for has_attention in attends]
    return {**JAMBA_SHARED, **first_norms(f"{LAYER}.input_layernorm.weight", keys)}


BAMBA_UNREAD = """
    attn_rotary_emb num_logits_to_keep z_loss_coefficient partial_rotary_factor rope_theta rope_parameters
    rope_scaling
"""
"""Keys that the class does not read, or that only layers of attention do, and there may be none."""


def _bamba(config: Config) -> Mapped:
    """Layers of Mamba-2, and of attention at attn_layer_indices, with RoPE on half of each head."""
    config.ignore(*BAMBA_UNREAD.split())
    mixers = {
        hf.FULL: lambda: {"attention": _bamba_attention(config)},
        hf.LINEAR: lambda: {"mixer": hf.bamba_mixer(config)},
    }
    ffn = hf.gated(config, bias=config.flag("mlp_bias"))
    return hf.decoder(config, hf.rmsnorm(config), hf.hybrid_layers(_bamba_kinds(config), mixers, ffn=ffn))


def _bamba_attention(config: Config) -> Mapped:
    width, half = hf.head_dim(config), {"partial_rotary_factor": ConfigValue(0.5, config.places.start)}
    turned = hf.position(config, width, {**half, **hf.rope_parameters(config)}, partial=0.5)
    return hf.attention(config, width, bias=config.flag("attention_bias"), position=turned)


def _bamba_kinds(config: Config) -> list[str]:
    """The kind of each layer; where attn_layer_indices is null or empty, none has attention."""
    indices = config.get("attn_layer_indices", default=[])
    if not isinstance(indices, list):
        what = f"attn_layer_indices must be a list of whole numbers, not {hf.short_repr(indices)}"
        raise config.error(what, at=config.place("attn_layer_indices"))
    return [hf.FULL if index in indices else hf.LINEAR for index in range(config.layers())]


BAMBA_EVERYWHERE: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if "norm" not in name and ".mlp." not in name},
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **{
        f"{LAYER}.feed_forward.{name}_proj.*": f"layers.*.ffn.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
    **hf.mamba2_names(f"{LAYER}.mamba"),
    "[model.]final_layernorm.weight": "final_norm.weight",
}


def _bamba_weights(config: Config) -> Weights:
    """The names of layers of either kind."""
    return {**BAMBA_EVERYWHERE, **by_kinds(_bamba_kinds(config), INPUT_NORMS)}


FALCON_H1_UNREAD = """
    num_logits_to_keep mamba_use_mlp mlp_expansion_factor time_step_floor time_step_max time_step_min
    time_step_rank
"""


def _falcon_h1(config: Config) -> Mapped:
    """Attention and Mamba-2 side by side in every layer, with constant factors along all paths."""
    config.ignore(*FALCON_H1_UNREAD.split())
    layer = {
        "kind": "pre_norm",
        "mixer": {"kind": "parallel", "branches": [_falcon_h1_attention(config), _falcon_h1_mixer(config)]},
        "ffn": _falcon_h1_network(config),
    }
    logits, tokens = (
        hf.multiplier(config, "lm_head_multiplier"),
        hf.multiplier(config, "embedding_multiplier"),
    )
    return hf.decoder(
        config,
        hf.rmsnorm(config),
        [layer] * config.layers(),
        embedding=hf.without_none({"scale": tokens}),
        head=None if logits is None else {"scale": logits},
    )


def _falcon_h1_attention(config: Config) -> Mapped:
    """Attention; the factor on keys is one on scores."""
    width, keys = hf.head_dim(config), hf.multiplier(config, "key_multiplier")
    return hf.attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        scale=None if keys is None else keys.derive(keys.value * width.value**-0.5),
        in_multiplier=hf.multiplier(config, "attention_in_multiplier"),
        out_multiplier=hf.multiplier(config, "attention_out_multiplier"),
    )


def _falcon_h1_mixer(config: Config) -> Mapped:
    """Mamba-2, mamba_d_ssm wide; the gated norm only if mamba_rms_norm says so."""
    inner = hf.expanded(config) if config.stated_null("mamba_d_ssm") else config.size("mamba_d_ssm")
    sides = {"in": config.nullable_flag("mamba_proj_bias"), "out": config.nullable_flag("projectors_bias")}
    biased = [side for side, flag in sides.items() if flag]
    # of the gate, x, B, C and dt
    factors = _falcon_h1_factors(config, "ssm_multipliers", 5)
    mapping = hf.mamba2(
        config,
        hf.BAMBA,
        hf.mixer_width(config, hf.BAMBA, inner),
        bias=True if len(biased) == len(sides) else biased or None,
        step_limit=hf.step_limit(config),
        multipliers=factors,
        in_multiplier=hf.multiplier(config, "ssm_in_multiplier"),
        out_multiplier=hf.multiplier(config, "ssm_out_multiplier"),
    )
    after = config.nullable_flag("mamba_norm_before_gate")
    norm = {**mapping["norm"], "gate": after.derive("after" if after else "before")}
    return {**mapping, "norm": norm if config.nullable_flag("mamba_rms_norm") else None}


def _falcon_h1_network(config: Config) -> Mapped:
    gate, down = _falcon_h1_factors(config, "mlp_multipliers", 2) or (None, None)
    mapping = hf.gated(config, bias=config.flag("mlp_bias"))
    return hf.without_none({**mapping, "gate_multiplier": gate, "down_multiplier": down})


def _falcon_h1_factors(config: Config, key: str, count: int) -> list[ConfigValue[float]] | None:
    """The `count` numbers above 0 at a key; None where all are 1 or the file states null."""
    entry = config.value(key, default=[1.0] * count)
    factors = entry.value
    if not isinstance(factors, list) or len(factors) != count:
        raise config.error(f"{key} must be {count} numbers, not {hf.short_repr(factors)}", at=entry.place)
    wrong = [factor for factor in factors if not hf.is_number(factor) or factor <= 0]
    if wrong:
        raise config.error(f"{key} must be numbers above 0, not {hf.short_repr(wrong[0])}", at=entry.place)
    return None if all(factor == 1 for factor in factors) else [entry.derive(float(f)) for f in factors]


SELF = f"{LAYER}.self_attn"
FALCON_H1_WEIGHTS: Weights = {
    **{name: hf.LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **{f"{SELF}.{name}_proj.*": f"layers.*.mixer.attention.{name}_proj.*" for name in "qkvo"},
    **hf.mamba2_names(f"{LAYER}.mamba", "layers.*.mixer.recurrent"),
    **{
        f"{LAYER}.feed_forward.{name}_proj.*": f"layers.*.ffn.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
    "[model.]final_layernorm.weight": "final_norm.weight",
}


FAMILIES = {
    "jamba": Family(
        "AI21's Jamba, Mamba layers with some of attention and of experts: JambaConfig and JambaForCausalLM.",
        _jamba,
        _jamba_weights,
        aliases=JAMBA,
        defaults={"mamba_dt_rank": "auto"},
    ),
    "bamba": Family(
        "Bamba: BambaConfig and BambaForCausalLM.", _bamba, _bamba_weights, defaults={"mamba_d_head": "auto"}
    ),
    "falcon_h1": Family(
        "Falcon-H1: FalconH1Config and FalconH1ForCausalLM.",
        _falcon_h1,
        FALCON_H1_WEIGHTS,
        defaults={"mamba_d_head": "auto"},
    ),
}
