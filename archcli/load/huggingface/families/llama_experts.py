"""Decoders of Llama's kind with experts: Aria, Solar Open, Mellum, Flint and Trinity."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.llama_like import llama_like


def _aria_text(config: Config) -> Mapped:
    """As Llama with experts, weighed by a softmax over the chosen, and shared ones.

    Routed experts are SwiGLU without biases, whatever hidden_act and mlp_bias say.
    """
    shared = hf.shared_experts(
        config, hf.gated(config, bias=config.flag("mlp_bias")), key="moe_num_shared_experts"
    )
    expert = {**hf.gated(config), "activation": "silu"}
    ffn = hf.experts(config, expert=expert, router={"scores": "softmax_after"}, shared=shared)
    return llama_like(config, ffn=ffn)


GATE_UP = tuple(f"layers.*.ffn.experts.{name}_proj.weight" for name in ("gate", "up"))
DOWN = ("layers.*.ffn.experts.down_proj.weight",)
ARIA_TEXT_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.SHARED,
    "[model.]layers.*.mlp.router.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.experts.{name}": Parts(GATE_UP, axis=1, transposed=True)
        for name in ("gate_up_proj", "fc1.weight")
    },
    **{
        f"[model.]layers.*.mlp.experts.{name}": Parts(DOWN, transposed=True)
        for name in ("down_proj", "fc2.weight")
    },
}


def _solar_open(config: Config) -> Mapped:
    """As Llama with DeepSeek-V3's experts in every layer."""
    config.ignore("intermediate_size", "first_k_dense_replace", "use_qk_norm")
    config.only("partial_rotary_factor", 1, default=1)  # with a part of each head the class cannot run
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    return llama_like(config, heads={"bias": bias}, ffn=hf.deepseek_experts(config))


MELLUM_ROPES = {hf.FULL: {"rope_theta": 500000.0}, hf.SLIDING: {"rope_theta": 10000.0}}


def _mellum(config: Config) -> Mapped:
    """As Qwen 3 with experts; layers with a window have a RoPE of their own."""
    config.ignore("mtp_layer_types", "mtp_mlp_layer_types")
    if config.get("num_nextn_predict_layers", "num_mtp_layers", default=0):
        config.note("layers of multi-token prediction are not counted: the class holds none")
    width = hf.head_dim(config)

    def heads(window: ConfigValue[int] | None) -> Mapped:
        place = hf.rope_of_type(config, width, hf.SLIDING if window else hf.FULL, MELLUM_ROPES)
        return {"qk_norm": hf.PER_HEAD, "position": place}

    routed = hf.by_types(config, lambda: [True] * config.layers())
    networks = hf.some_routed(config, routed, lambda: hf.experts(config, router=hf.normalized_by(config)))
    return llama_like(config, heads=heads, networks=networks, slides=lambda _: False)


FLINT_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    **{
        f"[model.]layers.*.self_attn.{name}": "layers.*.attention.sinks.weight"
        for name in ("sinks", "softmax_offset")
    },
}


def _flint(config: Config) -> Mapped:
    """Sinks in every layer, RoPE in windows alone; experts by sigmoid scores beside a shared one.

    Without layer_types the first two layers, every fourth and the last have no window.
    """
    hf.check_window(config)
    last = config.layers() - 1

    def heads(window: ConfigValue[int] | None) -> Mapped:
        position = {"kind": "none"} if window is None else None
        return {"qk_norm": hf.PER_HEAD, "position": position, "sinks": True}

    return llama_like(
        config,
        heads=heads,
        networks=hf.some_routed(config, hf.every_step(config), lambda: _flint_experts(config)),
        slides=lambda index: 1 < index < last and index % 4 != 1,
    )


def _flint_experts(config: Config) -> Mapped:
    router = {"scores": "sigmoid", "normalized": config.flag("norm_topk_prob")}
    return hf.experts(config, router=router, shared=hf.wide_shared_expert(config))


AFMOE_ROUTER = {"scores": "sigmoid", "correction": True, "correction_is": "parameter"}
AFMOE_UNREAD = """
    n_group topk_group num_expert_groups num_limited_groups route_norm score_func load_balance_coeff
    use_grouped_mm
"""
"""Keys of published files that the class does not read, and does as they say."""

AFMOE_WEIGHTS = {
    **hf.SANDWICH,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.pre_mlp_layernorm.weight": "layers.*.ffn_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.mlp.router.gate.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.mlp.expert_bias": "layers.*.ffn.correction.weight",
}


def _afmoe(config: Config) -> Mapped:
    """Norms before and after, gated attention, RoPE in windows alone; shared and routed experts."""
    hf.check_window(config)
    config.ignore(*AFMOE_UNREAD.split())
    first = config.count("num_dense_layers").value

    def heads(window: ConfigValue[int] | None) -> Mapped:
        position = {"kind": "none"} if window is None else None
        return {"qk_norm": hf.PER_HEAD, "position": position, "output_gate": {"per": "channel"}}

    def sparse() -> Mapped:
        expert = hf.gated(config, width="moe_intermediate_size")
        shared = hf.shared_experts(config, expert, key="num_shared_experts")
        router = {**AFMOE_ROUTER, "scale": config.number("route_scale")}
        return hf.experts(config, expert=expert, router=router, shared=shared)

    return llama_like(
        config,
        heads=heads,
        block={"kind": "sandwich"},
        networks=hf.some_routed(config, [index >= first for index in range(config.layers())], sparse),
        slides=lambda index: (index + 1) % config.size("global_attn_every_n_layers").value != 0,
        embedding={"scale": "sqrt_d_model"} if config.flag("mup_enabled") else {},
    )


FAMILIES = {
    "aria_text": Family(
        "Aria's language model: AriaTextConfig and AriaTextForCausalLM.",
        _aria_text,
        ARIA_TEXT_WEIGHTS,
        aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_topk"},
    ),
    "solar_open": Family(
        "Solar Open: SolarOpenConfig and SolarOpenForCausalLM.",
        _solar_open,
        {**hf.LLAMA, **hf.EXPERTS, **hf.SHARED, **hf.CORRECTED},
        aliases=hf.EXPERT_WORDS,
    ),
    "mellum": Family(
        "Mellum 2: MellumConfig and MellumForCausalLM.",
        _mellum,
        {**hf.LLAMA, **hf.EXPERTS, **hf.QK_NORM, "mtp.**": Auxiliary(hf.PREDICTION)},
        aliases={"num_experts": "num_local_experts"},
    ),
    "flint": Family("Flint: FlintConfig and FlintForCausalLM.", _flint, FLINT_WEIGHTS),
    "afmoe": Family("Arcee's Trinity: AfmoeConfig and AfmoeForCausalLM.", _afmoe, AFMOE_WEIGHTS),
}
