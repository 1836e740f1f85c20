"""MiniMax-M3's language model: MiniMaxM3VLTextConfig and MiniMaxM3VLForCausalLM."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, head_dim
from archcli.load.huggingface.parts.experts import by_types, experts, with_networks
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, GATE_UP, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("minimax_m3_vl_text",)
UNREAD = """
    hidden_act rotary_dim router_jitter_noise index_n_heads index_head_dim index_block_size index_topk_blocks
    index_local_blocks use_qk_norm qk_norm_type scoring_func use_routing_bias use_gemma_norm
"""
"""Keys that the class does not read, or that go by layers with an index."""

SHARED_GATE_UP = Parts(("layers.*.ffn.shared.gate_proj.weight", "layers.*.ffn.shared.up_proj.weight"))
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP,
    "[model.]layers.*.mlp.shared_experts.gate_up_proj.weight": SHARED_GATE_UP,
}


def mapping(config: Config) -> Mapped:
    """Gemma's norms, also of queries and keys per head; clipped SwiGLU; experts by sigmoid scores."""
    config = config.of_class(num_experts="num_local_experts")
    config.ignore(*UNREAD.split())
    _check_full(config)
    partial = rope(config, head_dim(config), partial=1.0)
    return llama_like(
        config,
        heads={"qk_norm": PER_HEAD, "position": partial},
        networks=lambda layers: with_networks(
            layers,
            by_types(config, lambda: _routed(config)),
            lambda: _clipped(config, "dense_intermediate_size"),
            lambda: _experts(config),
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


def _experts(config: Config) -> Mapped:
    beside = config.count("shared_intermediate_size")
    return experts(
        config,
        expert=_clipped(config, "intermediate_size"),
        router={"scores": "sigmoid", "correction": True, "scale": config.number("routed_scaling_factor")},
        shared=_clipped(config, "shared_intermediate_size") if beside else None,
    )


def _routed(config: Config) -> list[bool]:
    """Which layers have experts: all, but for those that moe_layer_freq has a 0 for."""
    stated = config.per_layer("moe_layer_freq", config.layers())
    return [True] * config.layers() if stated is None else [bool(entry) for entry in stated]


def _check_full(config: Config) -> None:
    """Refuse layers whose keys are chosen by an index."""
    sparse = config.get("sparse_attention_config", default=None)
    chosen = sparse.get("sparse_attention_freq") if isinstance(sparse, dict) else None
    types = config.per_layer("layer_types", config.layers())
    if types is None and isinstance(chosen, list) and any(chosen):
        what = "sparse_attention_config with layers that choose keys by an index is not supported"
        raise config.error(what, at=config.place("sparse_attention_config"))
    other = [kind for kind in types or [] if kind != FULL]
    if other:
        what = f"layer_types {short_repr(other[0])} is not supported"
        raise config.error(what, f"known: {FULL}", config.place("layer_types"))
