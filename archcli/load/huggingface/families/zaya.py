"""ZAYA1."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights

FULL, SLIDING = "hybrid", "hybrid_sliding"
ROPES = {
    FULL: {"rope_theta": 5000000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}


def _zaya(config: Config) -> Mapped:
    """Compressed convolutional attention; a carried router sends each token to one expert or none."""
    config.only("num_experts_per_tok", 1)
    config.ignore("sliding_window")
    kinds = hf.kinds_of_layers(config, [FULL] * config.layers(), (FULL, SLIDING))
    layers = [
        {"kind": "carried", "attention": _attention(config, kind), "ffn": _experts(config, first=not index)}
        for index, kind in enumerate(kinds)
    ]
    return hf.decoder(
        config, hf.rmsnorm(config), layers, tied=True, head={"bias": config.flag("lm_head_bias")}
    )


def _attention(config: Config, kind: str) -> Mapped:
    width = config.size("head_dim")
    return {
        "kind": "cca",
        "n_heads": config.size("num_attention_heads"),
        "n_kv_heads": config.size("num_key_value_heads"),
        "head_dim": width,
        "depthwise_kernel": config.size("cca_time0"),
        "grouped_kernel": config.size("cca_time1"),
        "bias": config.flag("attention_bias"),
        "position": hf.rope_of_type(config, width, kind, ROPES),
        **({"window": config.size("sliding_window")} if kind == SLIDING else {}),
    }


def _experts(config: Config, *, first: bool) -> Mapped:
    return {
        "kind": "carried_moe",
        "n_experts": config.size("num_experts"),
        "router_width": config.size("router_hidden_size"),
        "first": first,
        "expert": hf.gated(config, width="moe_intermediate_size"),
    }


LAYER, ATTENTION, ROUTER = "[model.]layers.*", "layers.*.attention", "layers.*.ffn"
SCALED = {"hidden_states": "out", "residual": "stream"}
ZAYA_WEIGHTS: Weights = {
    **{name: rule for name, rule in hf.LLAMA.items() if ".mlp." not in name and ".self_attn." not in name},
    **{f"[model.]input_hidden_states_{word}": f"embedding_{word}.weight" for word in ("scale", "bias")},
    **{
        f"{LAYER}.post_{theirs}_residual_scale.{part}_{word}": f"layers.*.{step}_{ours}_{word}.weight"
        for theirs, step in (("attention", "attention"), ("mlp", "ffn"))
        for part, ours in SCALED.items()
        for word in ("scale", "bias")
    },
    **{f"{LAYER}.self_attn.qkv_proj.{name}_proj.*": f"{ATTENTION}.{name}_proj.*" for name in "qk"},
    f"{LAYER}.self_attn.qkv_proj.v_proj_current.*": f"{ATTENTION}.v_proj.*",
    f"{LAYER}.self_attn.qkv_proj.v_proj_delayed.weight": f"{ATTENTION}.v_late_proj.weight",
    f"{LAYER}.self_attn.qkv_proj.v_proj_delayed.bias": f"{ATTENTION}.v_late_bias.weight",
    f"{LAYER}.self_attn.qkv_proj.conv_qk_depthwise.*": f"{ATTENTION}.conv.first_*",
    f"{LAYER}.self_attn.qkv_proj.conv_qk_grouped.*": f"{ATTENTION}.conv.second_*",
    f"{LAYER}.self_attn.qk_norm.temp": Parts((f"{ATTENTION}.k_scale.weight",), merged=True),
    f"{LAYER}.self_attn.o_proj.*": f"{ATTENTION}.o_proj.*",
    f"{LAYER}.mlp.gate.down_proj.*": f"{ROUTER}.router_down.*",
    f"{LAYER}.mlp.gate.router_states_scale": f"{ROUTER}.router_carry.weight",
    f"{LAYER}.mlp.gate.router_mlp.norm.weight": f"{ROUTER}.router_norm.weight",
    f"{LAYER}.mlp.gate.router_mlp.fc1.*": f"{ROUTER}.router_0.*",
    f"{LAYER}.mlp.gate.router_mlp.fc2.*": f"{ROUTER}.router_1.*",
    f"{LAYER}.mlp.gate.router_mlp.out_proj.weight": f"{ROUTER}.router.weight",
    f"{LAYER}.mlp.gate.balancing_biases": f"{ROUTER}.route.correction_bias",
    f"{LAYER}.mlp.experts.gate_up_proj": Parts(
        (f"{ROUTER}.experts.gate_proj.weight", f"{ROUTER}.experts.up_proj.weight"), axis=1
    ),
    f"{LAYER}.mlp.experts.down_proj": f"{ROUTER}.experts.down_proj.weight",
}


FAMILIES = {
    "zaya": Family("Zyphra's ZAYA1: ZayaConfig and ZayaForCausalLM.", _zaya, ZAYA_WEIGHTS),
}
