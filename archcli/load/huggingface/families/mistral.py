"""Mistral AI's models: Llama's layers with windows, experts or latent attention."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped
from archcli.load.huggingface.whole.llama_like import like_llama, llama_like


def _windowed(config: Config) -> Mapped:
    """Heads with the sliding window, unless it is null."""
    return {"window": hf.window(config)}


def _ministral(config: Config) -> Mapped:
    """As Mistral, where `layer_types` names the layers that have the window; without it, all have."""
    hf.check_window(config, null=True)
    config.ignore("attention_bias", "mlp_bias")  # the class has none whatever the file says
    return llama_like(config, slides=lambda _: True)


def _ministral3(config: Config) -> Mapped:
    """As Mistral, with queries that grow with their position beyond the original context."""
    config.ignore("attention_bias", "mlp_bias", "layer_types")  # not read, whatever the file says
    return llama_like(config, heads={**_windowed(config), "temperature": hf.sharpened(config)})


def _mixtral(config: Config) -> Mapped:
    """As Mistral, with experts in every layer; the weights of the top k are normalized to sum 1."""
    config.restated(moe_frequency=1)
    return llama_like(config, heads=_windowed(config), ffn=hf.experts(config, width="intermediate_size"))


def _mistral4(config: Config) -> Mapped:
    """As DeepSeek-V3 with a softmax router, and queries that grow with their position."""
    latent = hf.latent_attention(config)
    temperature = hf.sharpened(config)
    attention = {**latent, **({"temperature": temperature} if temperature else {})}

    def sparse() -> Mapped:
        expert = hf.gated(config, width="moe_intermediate_size")
        router = {
            "normalized": config.flag("norm_topk_prob"),
            "scale": config.number("routed_scaling_factor"),
            **hf.best_groups(config, "top2"),
        }
        return hf.experts(config, expert=expert, router=router, shared=hf.shared_experts(config, expert))

    layers = [{"kind": "pre_norm", "attention": attention}] * config.layers()
    layers = hf.with_networks(layers, hf.after_first(config), lambda: hf.gated(config), sparse)
    return hf.decoder(config, hf.rmsnorm(config), layers)


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
    "ministral": Family(
        "Ministral 8B of 2024: MinistralConfig and MinistralForCausalLM.", _ministral, hf.LLAMA
    ),
    "ministral3": Family(
        "Ministral 3: Ministral3Config and Ministral3ForCausalLM.",
        _ministral3,
        hf.LLAMA,
    ),
    "voxtral_realtime_text": Family(
        "Voxtral Realtime, its text part: VoxtralRealtimeTextConfig and VoxtralRealtimeTextModel.",
        _voxtral_realtime,
        {**hf.LLAMA, **TIMED},
        defaults={"num_delay_tokens": 6},
    ),
    "mixtral": Family(
        "Mixtral: MixtralConfig and MixtralForCausalLM.",
        _mixtral,
        {**hf.LLAMA, **hf.EXPERTS, **hf.MIXTRAL_EXPERTS},
        aliases={"num_experts": "num_local_experts"},
    ),
    "mistral4": Family(
        "Mistral Small 4: Mistral4Config and Mistral4ForCausalLM.",
        _mistral4,
        {**hf.LLAMA, **hf.MLA, **hf.EXPERTS, **hf.SHARED},
        aliases={"num_experts": "n_routed_experts"},
    ),
}
