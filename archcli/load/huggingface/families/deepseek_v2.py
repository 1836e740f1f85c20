"""DeepSeek-V2 and V2-Lite: DeepseekV2Config and DeepseekV2ForCausalLM."""

from __future__ import annotations

from dataclasses import replace

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import Flag, latent_attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import (
    after_first,
    best_groups,
    experts,
    shared_experts,
    with_networks,
)
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MLA, SHARED

MODEL_TYPES = ("deepseek_v2",)

ALIASES = {"num_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """Latent attention with interleaved RoPE; dense layers first, then routed and shared experts."""
    config = config.of_class(**ALIASES)
    config.only("moe_layer_freq", 1, default=1)
    config.only("use_mla", True, default=True)
    config.only("scoring_func", "softmax", default="softmax")
    config.ignore("norm_topk_prob")  # the class does not normalize whatever norm_topk_prob says
    config = _with_top_k(config)
    bias = config.flag("mlp_bias")
    attention = latent_attention(config, "interleaved")
    layer, routed = {"kind": "pre_norm", "attention": attention}, after_first(config)
    layers = with_networks(
        [layer] * len(routed), routed, lambda: gated(config, bias=bias), lambda: _experts(config, bias=bias)
    )
    return decoder(config, rmsnorm(config), layers)


def _with_top_k(config: Config) -> Config:
    """The config with one expert per token where no number is stated: the class has no default for it."""
    if config.get("num_experts_per_tok", default=None) is not None:
        return config
    config.note("num_experts_per_tok is not stated, without which the class runs no pass: 1 is counted")
    return replace(config, defaults={**config.defaults, "num_experts_per_tok": 1})


def _experts(config: Config, *, bias: Flag) -> Mapped:
    """Routed and shared experts; `mlp_bias` applies to the shared expert alone."""
    shared = shared_experts(config, gated(config, width="moe_intermediate_size", bias=bias))
    scale = config.number("routed_scaling_factor")
    return experts(config, router={"normalized": False, "scale": scale, **_groups(config)}, shared=shared)


def _groups(config: Config) -> Mapped:
    """The router's groups; with topk_method `greedy` none, whatever n_group states."""
    method = config.value("topk_method")
    if method == "greedy":
        config.ignore("n_group", "topk_group")
        return {}
    if method != "group_limited_greedy":
        what = f"topk_method {short_repr(method.value)} is not supported"
        raise config.error(what, "supported: 'greedy' or 'group_limited_greedy'", method.place)
    return best_groups(config, "max")


WEIGHTS: Weights = {**LLAMA, **MLA, **EXPERTS, **SHARED}
