"""Command A+: Cohere2MoeConfig and Cohere2MoeForCausalLM."""

from functools import partial

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, check_window, head_dim, positive, windows
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import by_types, experts, shared_experts, with_networks
from archcli.load.huggingface.parts.networks import gated, layernorm, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, SHARED

MODEL_TYPES = ("cohere2_moe",)
COMBINATIONS = {"average": "mean", "sum": "sum"}
WEIGHTS = {**LLAMA, **EXPERTS, **SHARED}


def mapping(config: Config) -> Mapped:
    """As Command A with experts after some dense layers, which may have RoPE without a window."""
    config = config.of_class()
    check_window(config)
    first, width = config.count("first_k_dense_replace", default=0).value, head_dim(config)
    config.ignore("prefix_dense_intermediate_size")  # without dense layers it has no use
    dense_period = config.size("prefix_dense_sliding_window_pattern").value
    near, bias = rope(config, width, pairing="interleaved"), config.flag("attention_bias")

    def layer(window: ConfigValue[int] | None, *, turned: bool) -> Mapped:
        place = near if turned or window is not None else {"kind": "none"}
        attend = attention(config, width, bias=bias, position=place, window=window)
        return {"kind": "parallel", "attention": attend}

    def slides(index: int) -> bool:
        period = dense_period if index < first else config.size("sliding_window_pattern").value
        return ((index if index < first else index - first) + 1) % period != 0

    routed = by_types(config, lambda: [index >= first for index in range(config.layers())])
    turned = [not moe and dense_period == 1 for moe in routed]
    either = {kind: windows(config, partial(layer, turned=kind), slides) for kind in dict.fromkeys(turned)}
    layers = [either[kind][index] for index, kind in enumerate(turned)]
    return decoder(
        config,
        _norm(config),
        with_networks(layers, routed, lambda: _dense(config), lambda: _sparse(config)),
        tied=True,
        head=None if (scale := positive(config, "logit_scale")) == 1 else {"scale": scale},
    )


def _norm(config: Config) -> Mapped:
    """RMSNorm where its eps is stated, else LayerNorm without bias."""
    stated = config.get("rms_norm_eps", default=None) is not None
    return rmsnorm(config) if stated else layernorm(config.number("layer_norm_eps"), bias=False)


def _dense(config: Config) -> Mapped:
    own = config.get("prefix_dense_intermediate_size", default=None) is not None
    return gated(config, width="prefix_dense_intermediate_size" if own else "intermediate_size")


def _sparse(config: Config) -> Mapped:
    """Experts chosen by their logits, weighed by a softmax or a sigmoid; the shared one is averaged in."""
    config.only("expert_selection_fn", "softmax", "sigmoid")
    soft = config.get("expert_selection_fn") == "softmax"
    router = {"scores": "sigmoid", "normalized": config.flag("norm_topk_prob")}
    expert = gated(config)
    shared = shared_experts(config, expert, key="num_shared_experts")
    how = config.value("shared_expert_combination_strategy")
    if shared and how.value not in [*COMBINATIONS]:  # a list has no hash
        what = f"shared_expert_combination_strategy {short_repr(how.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(COMBINATIONS), how.place)
    combination = how.derive(COMBINATIONS[how.value]) if shared else None
    return experts(
        config,
        expert=expert,
        router={"scores": "softmax_after"} if soft else router,
        shared=shared,
        combination=combination,
    )
