"""Cohere's Command models: parallel layers with one norm."""

from __future__ import annotations

from functools import partial
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped
from archcli.load.huggingface.whole.llama_like import llama_like


def _cohere(config: Config) -> Mapped:
    """Parallel with one LayerNorm without bias, interleaved RoPE.

    use_qk_norm gives each head of queries and keys its own norm.
    """
    qk_norm = {"per": "head_distinct"} if config.flag("use_qk_norm") else None
    near = hf.rope(config, hf.head_dim(config), pairing="interleaved")
    return _parallel(config, hf.positive(config, "logit_scale"), heads={"position": near, "qk_norm": qk_norm})


def _parallel(config: Config, scale: ConfigValue[float] | None, **options: Any) -> Mapped:
    """As Llama, parallel with one LayerNorm without bias; `scale` is that of the logits."""
    return llama_like(
        config,
        block={"kind": "parallel"},
        norm=hf.layernorm(config.number("layer_norm_eps"), bias=False),
        head=None if scale is None or scale == 1 else {"scale": scale},
        tied=True,
        **options,
    )


def _cohere2(config: Config) -> Mapped:
    """Parallel with one LayerNorm without bias; RoPE in layers with a window, no position in the others."""
    hf.check_window(config)
    period = config.size("sliding_window_pattern", default=4).value
    near = hf.rope(config, hf.head_dim(config), pairing="interleaved")

    def heads(window: ConfigValue[int] | None) -> Mapped:
        return {"position": {"kind": "none"} if window is None else near}

    scale = hf.positive(config, "logit_scale")
    return _parallel(config, scale, heads=heads, slides=lambda index: (index + 1) % period != 0)


COMBINATIONS = {"average": "mean", "sum": "sum"}


def _cohere2_moe(config: Config) -> Mapped:
    """As Command A, with experts after some dense layers.

    With prefix_dense_sliding_window_pattern 1, dense layers have RoPE and no window.
    """
    hf.check_window(config)
    first, width = config.count("first_k_dense_replace", default=0).value, hf.head_dim(config)
    config.ignore("prefix_dense_intermediate_size")  # without dense layers it has no use
    dense_period = config.size("prefix_dense_sliding_window_pattern").value
    near, bias = hf.rope(config, width, pairing="interleaved"), config.flag("attention_bias")

    def layer(window: ConfigValue[int] | None, *, always_rope: bool) -> Mapped:
        place = near if always_rope or window is not None else {"kind": "none"}
        attend = hf.attention(config, width, bias=bias, position=place, window=window)
        return {"kind": "parallel", "attention": attend}

    def slides(index: int) -> bool:
        # the pattern begins anew behind the dense layers
        period = dense_period if index < first else config.size("sliding_window_pattern").value
        return ((index if index < first else index - first) + 1) % period != 0

    routed = hf.by_types(config, lambda: [index >= first for index in range(config.layers())])
    always_rope = [not moe and dense_period == 1 for moe in routed]
    stacks = {
        always: hf.windows(config, partial(layer, always_rope=always), slides)
        for always in dict.fromkeys(always_rope)
    }
    layers = [stacks[always][index] for index, always in enumerate(always_rope)]
    return hf.decoder(
        config,
        _moe_norm(config),
        hf.with_networks(layers, routed, lambda: _moe_dense(config), lambda: _moe_sparse(config)),
        tied=True,
        head=None if (scale := hf.positive(config, "logit_scale")) == 1 else {"scale": scale},
    )


def _moe_norm(config: Config) -> Mapped:
    """RMSNorm where its eps is stated, else LayerNorm without bias."""
    has_rms = config.get("rms_norm_eps", default=None) is not None
    return hf.rmsnorm(config) if has_rms else hf.layernorm(config.number("layer_norm_eps"), bias=False)


def _moe_dense(config: Config) -> Mapped:
    """The network of a dense layer, as wide as an expert unless the file says otherwise."""
    has_width = config.get("prefix_dense_intermediate_size", default=None) is not None
    return hf.gated(config, width="prefix_dense_intermediate_size" if has_width else "intermediate_size")


def _moe_sparse(config: Config) -> Mapped:
    """Experts chosen by their logits, weighed by a softmax or a sigmoid; the shared one is averaged in."""
    config.only("expert_selection_fn", "softmax", "sigmoid")
    soft = config.get("expert_selection_fn") == "softmax"
    router = {"scores": "sigmoid", "normalized": config.flag("norm_topk_prob")}
    expert = hf.gated(config)
    shared = hf.shared_experts(config, expert, key="num_shared_experts")
    how = config.value("shared_expert_combination_strategy")
    if shared and how.value not in [*COMBINATIONS]:  # a list has no hash
        what = f"shared_expert_combination_strategy {hf.short_repr(how.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(COMBINATIONS), how.place)
    combination = how.derive(COMBINATIONS[how.value]) if shared else None
    return hf.experts(
        config,
        expert=expert,
        router={"scores": "softmax_after"} if soft else router,
        shared=shared,
        combination=combination,
    )


def _cohere_compass(config: Config) -> Mapped:
    """As Command A, with RoPE by the type of a layer, null for none; its three axes are equal for text."""
    config.ignore("pooling", "sliding_window_pattern")
    hf.check_window(config)
    width = hf.head_dim(config)

    def heads(window: ConfigValue[int] | None) -> Mapped:
        return {"position": _position_of_type(config, width, hf.FULL if window is None else hf.SLIDING)}

    has_scale = config.get("logit_scale", default=None) is not None
    scale = hf.positive(config, "logit_scale") if has_scale else None
    return _parallel(config, scale, heads=heads, slides=lambda _: False)


def _position_of_type(config: Config, width: ConfigValue[int], kind: str) -> Mapped | ConfigValue[Mapped]:
    """RoPE with the parameters that rope_parameters has for a type of layer; null there means none."""
    parameters = config.value("rope_parameters", default={})
    if isinstance(parameters.value, dict) and kind in parameters.value and parameters.value[kind] is None:
        return {"kind": "none"}
    if not isinstance(parameters.value, dict) or kind not in parameters.value:
        what = f"rope_parameters need a mapping {kind!r}, or null for layers without RoPE"
        raise config.error(what, at=config.place("rope_parameters"))
    return hf.rope_of_type(config, width, kind, {kind: {}})


FAMILIES = {
    "cohere": Family(
        "Command R and R+ (and PaLM, whose block is the same): CohereConfig and CohereForCausalLM.",
        _cohere,
        {**hf.LLAMA, **hf.QK_NORM},
    ),
    "cohere2": Family("Command R7B and Command A: Cohere2Config and Cohere2ForCausalLM.", _cohere2, hf.LLAMA),
    "cohere2_moe": Family(
        "Command A+: Cohere2MoeConfig and Cohere2MoeForCausalLM.",
        _cohere2_moe,
        {**hf.LLAMA, **hf.EXPERTS, **hf.SHARED},
    ),
    "cohere_compass_text": Family(
        "Command's North Micro, the language model: CohereCompassTextConfig and CohereCompassForCausalLM.",
        _cohere_compass,
        hf.LLAMA,
    ),
}
