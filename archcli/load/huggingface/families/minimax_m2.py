"""MiniMax-M2 and M3."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, head_dim
from archcli.load.huggingface.parts.experts import by_types, experts, with_networks
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import (
    CORRECTED,
    EXPERTS,
    GATE_UP,
    LLAMA,
    MIXTRAL_EXPERTS,
    QK_NORM,
    SHARED,
)
from archcli.load.huggingface.whole.llama_like import llama_like

MINIMAX_M2_UNREAD = """
    use_qk_norm qk_norm_type scoring_func use_routing_bias attn_type_list use_mtp num_mtp_modules
    mtp_transformer_layers shared_intermediate_size router_jitter_noise
"""
"""Keys of published files that the class does not read, and does as they say; prediction is not counted."""


def _minimax_m2(config: Config) -> Mapped:
    """As Llama with a norm over all queries or keys, RoPE on a part of each head, and experts.

    Experts are chosen by sigmoid scores and a correction bias. `rotary_dim` stands for a partial RoPE.
    """
    config.ignore(*MINIMAX_M2_UNREAD.split())
    width, turned = head_dim(config), config.optional_size("rotary_dim")
    share = 1.0 if turned is None else turned.value / width.value
    heads = {"qk_norm": {"per": "full"}, "position": rope(config, width, partial=share)}
    router = {"scores": "sigmoid", "correction": True}
    return llama_like(config, heads=heads, ffn=experts(config, width="intermediate_size", router=router))


MINIMAX_M2_WEIGHTS: Weights = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **MIXTRAL_EXPERTS,
    **{
        f"[model.]layers.*.{ffn}.e_score_correction_bias": "layers.*.ffn.route.correction_bias"
        for ffn in ("mlp", "block_sparse_moe")
    },
}


MINIMAX_M3_UNREAD = """
    hidden_act rotary_dim router_jitter_noise index_n_heads index_head_dim index_block_size index_topk_blocks
    index_local_blocks use_qk_norm qk_norm_type scoring_func use_routing_bias use_gemma_norm
"""
"""Keys that the class does not read, or only for layers with an index."""

SHARED_GATE_UP = Parts(("layers.*.ffn.shared.gate_proj.weight", "layers.*.ffn.shared.up_proj.weight"))
MINIMAX_M3_WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP,
    "[model.]layers.*.mlp.shared_experts.gate_up_proj.weight": SHARED_GATE_UP,
}


def _minimax_m3(config: Config) -> Mapped:
    """Gemma's norms, also of queries and keys per head; clipped SwiGLU; experts by sigmoid scores."""
    config.ignore(*MINIMAX_M3_UNREAD.split())
    _refuse_indexes(config)
    return llama_like(
        config,
        heads={"qk_norm": PER_HEAD, "position": rope(config, head_dim(config), partial=1.0)},
        networks=lambda layers: with_networks(
            layers,
            by_types(config, lambda: _minimax_m3_routed(config)),
            lambda: _clipped(config, "dense_intermediate_size"),
            lambda: _minimax_m3_experts(config),
        ),
        norm=rmsnorm(config, offset=1),
    )


def _clipped(config: Config, width: str) -> Mapped:
    """down((clip(up) + 1) * clip(gate) sigmoid(alpha clip(gate))), as in gpt-oss."""
    return {
        "kind": "glu",
        "d_ff": config.size(width),
        "activation": {"kind": "swish", "beta": config.number("swiglu_alpha")},
        "limit": config.number("swiglu_limit"),
        "up_offset": 1,
    }


def _minimax_m3_experts(config: Config) -> Mapped:
    has_shared = config.count("shared_intermediate_size")
    return experts(
        config,
        expert=_clipped(config, "intermediate_size"),
        router={"scores": "sigmoid", "correction": True, "scale": config.number("routed_scaling_factor")},
        shared=_clipped(config, "shared_intermediate_size") if has_shared else None,
    )


def _minimax_m3_routed(config: Config) -> list[bool]:
    """Which layers have experts: all except those with a 0 in moe_layer_freq."""
    flags = config.per_layer("moe_layer_freq", config.layers())
    return [True] * config.layers() if flags is None else [bool(flag) for flag in flags]


def _refuse_indexes(config: Config) -> None:
    """Refuse layers whose keys are chosen by an index."""
    sparse = config.get("sparse_attention_config", default=None)
    flags = sparse.get("sparse_attention_freq") if isinstance(sparse, dict) else None
    types = config.per_layer("layer_types", config.layers())
    if types is None and isinstance(flags, list) and any(flags):
        what = "sparse_attention_config with layers that choose keys by an index is not supported"
        raise config.error(what, at=config.place("sparse_attention_config"))
    unknown = [kind for kind in types or [] if kind != FULL]
    if unknown:
        what = f"layer_types {short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {FULL}", config.place("layer_types"))


FAMILIES = {
    "minimax_m2": Family(
        "MiniMax-M2: MiniMaxM2Config and MiniMaxM2ForCausalLM.",
        _minimax_m2,
        MINIMAX_M2_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
    "minimax_m3_vl_text": Family(
        "MiniMax-M3's language model: MiniMaxM3VLTextConfig and MiniMaxM3VLForCausalLM.",
        _minimax_m3,
        MINIMAX_M3_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
}
