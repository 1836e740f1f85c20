"""DeepSeek's models and their kin: latent attention, fine-grained experts, indexers."""

from __future__ import annotations

from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, attention
from archcli.load.huggingface.whole.deepseek_like import (
    deepseek_like,
    deepseek_weights,
    index_sources,
    index_types,
    sparse_deepseek,
    sparse_deepseek_weights,
)

# DeepseekConfig of configuration_deepseek.py in deepseek-ai/deepseek-moe-16b-base
DEEPSEEK_DEFAULTS = {
    "mlp_bias": None,
    "vocab_size": 102400,
    "num_hidden_layers": 30,
    "moe_intermediate_size": 1407,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 0,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
}


def _deepseek(config: Config) -> Mapped:
    """MHA or GQA, and fine-grained experts beside shared ones in all layers but the first ones."""
    config.only("scoring_func", "softmax")
    width = hf.head_dim(config)
    attend = attention(config, width, bias=config.flag("attention_bias"))
    layers = [{"kind": "pre_norm", "attention": attend}] * config.layers()
    return hf.decoder(
        config,
        hf.rmsnorm(config),
        hf.with_networks(
            layers, _deepseek_routed(config), lambda: hf.gated(config), lambda: _deepseek_experts(config)
        ),
    )


def _deepseek_routed(config: Config) -> list[bool]:
    """Which layers have experts."""
    config.ignore("num_experts_per_tok", "n_shared_experts")
    first, step = config.count("first_k_dense_replace").value, config.size("moe_layer_freq").value
    has_experts = config.get("num_experts", default=None) is not None
    return [has_experts and index >= first and index % step == 0 for index in range(config.layers())]


def _deepseek_experts(config: Config) -> Mapped:
    expert = hf.gated(config, width="moe_intermediate_size")
    has_shared = config.get("n_shared_experts", default=None) is not None
    shared = hf.shared_experts(config, expert) if has_shared else None
    return hf.experts(config, expert=expert, router=hf.normalized_by(config), shared=shared)


def _deepseek_v2(config: Config) -> Mapped:
    """Latent attention with interleaved RoPE; dense layers first, then routed and shared experts."""
    config.only("moe_layer_freq", 1, default=1)
    config.only("use_mla", True, default=True)
    config.only("scoring_func", "softmax", default="softmax")
    config.ignore("norm_topk_prob")  # the class does not normalize whatever norm_topk_prob says
    config = _with_top_k(config)
    bias = config.flag("mlp_bias")
    attention = hf.latent_attention(config, "interleaved")
    layer, routed = {"kind": "pre_norm", "attention": attention}, hf.after_first(config)
    layers = hf.with_networks(
        [layer] * len(routed),
        routed,
        lambda: hf.gated(config, bias=bias),
        lambda: _deepseek_v2_experts(config, bias=bias),
    )
    return hf.decoder(config, hf.rmsnorm(config), layers)


def _with_top_k(config: Config) -> Config:
    """The config with one expert per token where no number is stated: the class has no default for it."""
    if config.get("num_experts_per_tok", default=None) is not None:
        return config
    config.note("num_experts_per_tok is not stated, without which the class runs no pass: 1 is counted")
    return replace(config, defaults={**config.defaults, "num_experts_per_tok": 1})


def _deepseek_v2_experts(config: Config, *, bias: hf.Flag) -> Mapped:
    """Routed and shared experts; `mlp_bias` applies to the shared expert alone."""
    shared = hf.shared_experts(config, hf.gated(config, width="moe_intermediate_size", bias=bias))
    scale = config.number("routed_scaling_factor")
    return hf.experts(
        config, router={"normalized": False, "scale": scale, **_deepseek_v2_groups(config)}, shared=shared
    )


def _deepseek_v2_groups(config: Config) -> Mapped:
    """The router's groups; with topk_method `greedy` none, whatever n_group states."""
    config.only("topk_method", "greedy", "group_limited_greedy")
    if config.get("topk_method") == "greedy":
        config.ignore("n_group", "topk_group")
        return {}
    return hf.best_groups(config, "max")


def _deepseek_v3(config: Config) -> Mapped:
    """Latent attention; dense layers first, then a shared expert and routed ones.

    Experts are chosen by sigmoid scores and a correction bias.
    """
    config.only("moe_layer_freq", 1, default=1)
    config.only("scoring_func", "sigmoid", default="sigmoid")
    config.only("topk_method", "noaux_tc", default="noaux_tc")
    return deepseek_like(config, hf.latent_attention(config), hf.after_first(config))


OLD_YARN = "deepseek_yarn"
"""YaRN, as Sarvam's first files call it."""


def _sarvam_mla(config: Config) -> Mapped:
    """As DeepSeek-V3; published files say `deepseek_yarn`, which is YaRN, and the width of the cache."""
    config.ignore("head_dim", "q_head_dim")
    scaling = config.data.get("rope_scaling")
    if isinstance(scaling, dict) and OLD_YARN in (scaling.get("type"), scaling.get("rope_type")):
        kept = {key: value for key, value in scaling.items() if key != "type"}
        config = replace(config, data={**config.data, "rope_scaling": {**kept, "rope_type": "yarn"}})
    return _deepseek_v3(config)


def _youtu(config: Config) -> Mapped:
    """Dense layers with the latent attention of DeepSeek-V3."""
    config.ignore("embedding_initializer_range", "mlp_bias")
    layer = {"kind": "pre_norm", "attention": hf.latent_attention(config), "ffn": hf.gated(config)}
    return hf.decoder(config, hf.rmsnorm(config), [layer] * config.layers(), tied=True)


def _deepseek_v32(config: Config) -> Mapped:
    """As DeepSeek-V3; an indexer pairs the halves of its rotary dims, the attention neighbours."""
    return sparse_deepseek(config, "half")


def _glm5(config: Config) -> Mapped:
    """As DeepSeek-V3.2; indexers pair neighbours as the attention does, and layers may share them."""
    return sparse_deepseek(config, sources=index_sources(config, index_types(config)))


FAMILIES = {
    "deepseek": Family(
        "DeepSeekMoE of 2024, whose class is in its repository: DeepseekConfig.",
        _deepseek,
        {**hf.LLAMA, **hf.EXPERTS, **hf.SHARED},
        aliases={"num_experts": "n_routed_experts"},
        defaults=DEEPSEEK_DEFAULTS,
        defaults_of="llama",
    ),
    "deepseek_v2": Family(
        "DeepSeek-V2 and V2-Lite: DeepseekV2Config and DeepseekV2ForCausalLM.",
        _deepseek_v2,
        {**hf.LLAMA, **hf.MLA, **hf.EXPERTS, **hf.SHARED},
        aliases={"num_experts": "n_routed_experts"},
    ),
    **dict.fromkeys(
        ("deepseek_v3", "kimi_k2"),
        Family(
            "DeepSeek-V3, R1 and Kimi K2: DeepseekV3Config and DeepseekV3ForCausalLM.",
            _deepseek_v3,
            deepseek_weights,
            aliases=hf.EXPERT_WORDS,
            defaults_of="deepseek_v3",
        ),
    ),
    "sarvam_mla": Family(
        "Sarvam 105B: SarvamMLAConfig, of DeepSeek-V3's class DeepseekV3ForCausalLM.",
        _sarvam_mla,
        deepseek_weights,
        aliases={**hf.EXPERT_WORDS, "n_shared_experts": "num_shared_experts"},
    ),
    "youtu": Family("Youtu-LLM: YoutuConfig and YoutuForCausalLM.", _youtu, {**hf.LLAMA, **hf.MLA}),
    "deepseek_v32": Family(
        "DeepSeek-V3.2, V3 with an indexer in each layer: DeepseekV32Config and DeepseekV32ForCausalLM.",
        _deepseek_v32,
        sparse_deepseek_weights,
        aliases=hf.EXPERT_WORDS,
    ),
    "glm_moe_dsa": Family(
        "GLM-5, whose layers have an indexer: GlmMoeDsaConfig and GlmMoeDsaForCausalLM.",
        _glm5,
        sparse_deepseek_weights,
        aliases=hf.EXPERT_WORDS,
    ),
}
