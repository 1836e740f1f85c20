"""Mistral AI's models: Llama's layers with windows, experts or latent attention."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import (
    check_window,
    latent_attention,
    window,
)
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import (
    after_first,
    best_groups,
    experts,
    shared_experts,
    with_networks,
)
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import sharpened
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS, MLA, SHARED
from archcli.load.huggingface.whole.llama_like import like_llama, llama_like


def _windowed(config: Config) -> Mapped:
    """Heads with the sliding window, unless it is null."""
    return {"window": window(config)}


def _ministral(config: Config) -> Mapped:
    """As Mistral, where `layer_types` names the layers that have the window; without it, all have."""
    check_window(config, null=True)
    config.ignore("attention_bias", "mlp_bias")  # the class has none whatever the file says
    return llama_like(config, slides=lambda _: True)


def _ministral3(config: Config) -> Mapped:
    """As Mistral, with queries that grow with their position beyond the original context."""
    config.ignore("attention_bias", "mlp_bias", "layer_types")  # not read, whatever the file says
    return llama_like(config, heads={**_windowed(config), "temperature": sharpened(config)})


def _mixtral(config: Config) -> Mapped:
    """As Mistral, with experts in every layer; the weights of the top k are normalized to sum 1."""
    config.restated(moe_frequency=1)
    return llama_like(config, heads=_windowed(config), ffn=experts(config, width="intermediate_size"))


def _mistral4(config: Config) -> Mapped:
    """As DeepSeek-V3 with a softmax router, and queries that grow with their position."""
    latent = latent_attention(config)
    temperature = sharpened(config)
    attention = {**latent, **({"temperature": temperature} if temperature else {})}

    def sparse() -> Mapped:
        expert = gated(config, width="moe_intermediate_size")
        router = {
            "normalized": config.flag("norm_topk_prob"),
            "scale": config.number("routed_scaling_factor"),
            **best_groups(config, "top2"),
        }
        return experts(config, expert=expert, router=router, shared=shared_experts(config, expert))

    layers = [{"kind": "pre_norm", "attention": attention}] * config.layers()
    layers = with_networks(layers, after_first(config), lambda: gated(config), sparse)
    return decoder(config, rmsnorm(config), layers)


def _voxtral_realtime(config: Config) -> Mapped:
    """As Mistral, with networks whose input goes by the delay of the text behind the sound."""
    timed = {"kind": "timed_pre_norm", "rank": TIME_RANK, "delay": config.count("num_delay_tokens")}
    return llama_like(config, heads=_windowed(config), block=timed)


TIME_RANK = 32
"""The width between both matrices of VoxtralRealtimeTextAdaRmsNorm, which no key states."""
TIMED = {
    f"[model.]layers.*.ada_rms_norm.linear{i}.weight": f"layers.*.time_condition_{name}.weight"
    for i, name in enumerate(("down", "up"), 1)
}

FAMILIES = {
    # as Llama without biases
    "mistral": like_llama("Mistral: MistralConfig and MistralForCausalLM.", heads=_windowed),
    "ministral": Family("Ministral 8B of 2024: MinistralConfig and MinistralForCausalLM.", _ministral, LLAMA),
    "ministral3": Family(
        "Ministral 3: Ministral3Config and Ministral3ForCausalLM.",
        _ministral3,
        LLAMA,
    ),
    "voxtral_realtime_text": Family(
        "Voxtral Realtime, its text part: VoxtralRealtimeTextConfig and VoxtralRealtimeTextModel.",
        _voxtral_realtime,
        {**LLAMA, **TIMED},
        defaults={"num_delay_tokens": 6},
    ),
    "mixtral": Family(
        "Mixtral: MixtralConfig and MixtralForCausalLM.",
        _mixtral,
        {**LLAMA, **EXPERTS, **MIXTRAL_EXPERTS},
        aliases={"num_experts": "num_local_experts"},
    ),
    "mistral4": Family(
        "Mistral Small 4: Mistral4Config and Mistral4ForCausalLM.",
        _mistral4,
        {**LLAMA, **MLA, **EXPERTS, **SHARED},
        aliases={"num_experts": "n_routed_experts"},
    ),
}
