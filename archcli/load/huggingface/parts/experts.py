"""Mixtures of experts by the usual keys: experts, routers, and which layers have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.networks import gated

SUM_TO_ONE: Mapping[str, Any] = MappingProxyType({})
"""A softmax over all experts, whose chosen weights are divided by their sum (Mixtral)."""

DENSE, SPARSE = "dense", "sparse"

EXPERT_WORDS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("num_experts", "num_local_experts"), "n_routed_experts")
)
"""DeepSeek's word for the number of experts."""


def experts(
    config: Config,
    *,
    width: str = "moe_intermediate_size",
    expert: Mapped | None = None,
    router: Mapping[str, Any] = SUM_TO_ONE,
    top_k: ConfigValue[int] | None = None,
    **more: Any,
) -> Mapped:
    """A mixture of num_experts networks, num_experts_per_tok for each token.

    width, expert: the key of an expert's width, for SwiGLU; or the expert itself.
    top_k: in place of num_experts_per_tok, where layers differ.
    more: further fields, such as `shared`; None leaves one out.
    """
    mapping = {
        "kind": "moe",
        "n_experts": config.size("num_experts"),
        "top_k": config.size("num_experts_per_tok") if top_k is None else top_k,
        "expert": gated(config, width=width) if expert is None else expert,
        "router": without_none({**router}) or None,
        **more,
    }
    return without_none(mapping)


def normalized_by(config: Config) -> Mapped:
    """A softmax over all experts; norm_topk_prob says whether the chosen weights are divided by their sum."""
    return {"normalized": config.flag("norm_topk_prob")}


def corrected_router(config: Config, *, grouped: bool = True) -> Mapped:
    """DeepSeek-V3's router: sigmoid scores, a correction bias when choosing, groups of experts, a scale."""
    return {
        "scores": "sigmoid",
        "normalized": config.flag("norm_topk_prob"),
        "scale": config.number("routed_scaling_factor"),
        "correction": True,
        **(best_groups(config, "top2") if grouped else {}),
    }


def best_groups(config: Config, score: str) -> Mapped:
    """The topk_group best of n_group groups of experts, by the score max or top2; nothing for one group."""
    number, chosen = config.size("n_group"), config.size("topk_group")
    return {} if number == 1 else {"n_groups": number, "top_k_groups": chosen, "group_score": score}


def shared_experts(config: Config, expert: Mapped, *, key: str = "n_shared_experts") -> Mapped | None:
    """The experts that see every token: in DeepSeek one network as wide as all of them; null is none."""
    if config.stated_null(key):
        return None
    number, width = config.count(key), expert["d_ff"]
    return {**expert, "d_ff": width.derive(number.value * width.value)} if number else None


WIDTH = "shared_expert_intermediate_size"


def wide_shared_expert(config: Config) -> Mapped | None:
    """A shared expert of its own width; None where the width is 0."""
    return gated(config, width=WIDTH) if config.count(WIDTH) else None


def gated_experts(config: Config, router: Mapped) -> Mapped:
    """Routed experts beside a shared one that each token gates (Qwen2-MoE, Qwen3-Next)."""
    shared = wide_shared_expert(config)
    if shared is None:
        what, hint = f"{WIDTH} 0 is not supported", "its gate needs an expert"
        raise config.error(what, hint, config.place(WIDTH))
    return experts(config, router=router, shared=shared, shared_gate=True)


def with_networks(
    layers: Sequence[Mapped],
    routed: Sequence[bool],
    dense: Callable[[], Mapped],
    sparse: Callable[[], Mapped],
) -> list[Mapped]:
    """The layers with their feed-forward part: experts where `routed`, else a dense network.

    A part that no layer has is not made, so that its keys may be anything.
    """
    ffns = {is_routed: (sparse if is_routed else dense)() for is_routed in dict.fromkeys(routed)}
    # by identity, so that equal layers stay one object: `groups` writes each object out
    complete: dict[tuple[int, bool], Mapped] = {}
    return [
        complete.setdefault((id(layer), is_routed), {**layer, "ffn": ffns[is_routed]})
        for layer, is_routed in zip(layers, routed, strict=True)
    ]


def deepseek_experts(
    config: Config, *, shared: str = "n_shared_experts", grouped: bool = True, **more: Any
) -> Mapped:
    """The mixture of DeepSeek-V3: its router, and as many shared experts as the key `shared` says."""
    expert = gated(config, width="moe_intermediate_size")
    router = corrected_router(config, grouped=grouped)
    return experts(
        config, expert=expert, router=router, shared=shared_experts(config, expert, key=shared), **more
    )


def some_routed(
    config: Config, routed: Sequence[bool], sparse: Callable[[], Mapped]
) -> Callable[[list[Mapped]], list[Mapped]]:
    """A function that gives layers their feed-forward part: `sparse` where `routed`, else SwiGLU."""
    return lambda layers: with_networks(layers, routed, lambda: gated(config), sparse)


def after_first(config: Config) -> list[bool]:
    """Which layers have experts: all after the first first_k_dense_replace."""
    first = config.count("first_k_dense_replace").value
    return [index >= first for index in range(config.layers())]


def after_first_in_steps(config: Config) -> list[bool]:
    """Which layers have experts: from first_k_dense_replace on, each that moe_layer_freq divides."""
    first = config.count("first_k_dense_replace", default=1).value
    step = config.size("moe_layer_freq", default=1).value
    return [index >= first and index % step == 0 for index in range(config.layers())]


def every_step(config: Config) -> list[bool]:
    """Which layers have experts: every decoder_sparse_step-th, but for those that mlp_only_layers names."""
    step, plain = config.size("decoder_sparse_step").value, config.get("mlp_only_layers", default=[])
    if not isinstance(plain, list) or not all(isinstance(index, int) for index in plain):
        what = f"mlp_only_layers must be a list of whole numbers, not {short_repr(plain)}"
        raise config.error(what, at=config.place("mlp_only_layers"))
    has_experts, named = config.count("num_experts").value > 0, {*plain}
    return [
        has_experts and (index + 1) % step == 0 and index not in named for index in range(config.layers())
    ]


def by_types(config: Config, default: Callable[[], Sequence[bool]]) -> list[bool]:
    """Which layers have experts: those that mlp_layer_types calls sparse; without it as `default` says."""
    kinds = config.per_layer("mlp_layer_types", config.layers())
    if kinds is None:
        return list(default())
    unknown = [kind for kind in kinds if kind not in (DENSE, SPARSE)]
    if unknown:
        what = f"mlp_layer_types {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {DENSE}, {SPARSE}", config.place("mlp_layer_types"))
    return [kind == SPARSE for kind in kinds]
