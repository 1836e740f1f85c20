"""MiniMax-M2 and M3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights
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
    width, turned = hf.head_dim(config), config.optional_size("rotary_dim")
    share = 1.0 if turned is None else turned.value / width.value
    heads = {"qk_norm": {"per": "full"}, "position": hf.rope(config, width, partial=share)}
    router = {"scores": "sigmoid", "correction": True}
    return llama_like(config, heads=heads, ffn=hf.experts(config, width="intermediate_size", router=router))


MINIMAX_M2_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.MIXTRAL_EXPERTS,
    **{
        f"[model.]layers.*.{ffn}.e_score_correction_bias": "layers.*.ffn.route.correction_bias"
        for ffn in ("mlp", "block_sparse_moe")
    },
}


MINIMAX_M3_UNREAD = """
    hidden_act rotary_dim router_jitter_noise use_qk_norm qk_norm_type scoring_func use_routing_bias
    use_gemma_norm use_mtp num_mtp_modules mtp_transformer_layers num_nextn_predict_layers
"""
"""Keys that the class does not read; prediction is not counted."""

SPARSE_LAYER = "minimax_m3_sparse"
"""What `layer_types` calls a layer with an index."""
INDEX = {
    "n_heads": ("index_n_heads", "sparse_num_index_heads"),
    "head_dim": ("index_head_dim", "sparse_index_dim"),
    "block": ("index_block_size", "sparse_block_size"),
    "top_k": ("index_topk_blocks", "sparse_topk_blocks"),
    "local": ("index_local_blocks", "sparse_local_block"),
}
"""The sizes of an index: their keys, and those in sparse_attention_config of published files, which win."""
ONLY = {"use_sparse_attention": True, "sparse_init_block": 0, "sparse_score_type": "max"}
"""Further keys of sparse_attention_config, with what the class does; it does not read them."""

SHARED_GATE_UP = Parts(
    ("layers.*.ffn.shared.gate_proj.weight", "layers.*.ffn.shared.up_proj.weight"), in_memory=True
)
MINIMAX_M3_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    "[model.]layers.*.mlp.gate_up_proj.weight": replace(hf.GATE_UP, in_memory=True),
    "[model.]layers.*.mlp.shared_experts.gate_up_proj.weight": SHARED_GATE_UP,
    **hf.MIXTRAL_EXPERTS,
    "[model.]layers.*.block_sparse_moe.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
    **{name.replace(".mlp.", ".block_sparse_moe."): rule for name, rule in hf.SHARED.items()},
    # as published files name them, and as the class does
    **{
        f"[model.]layers.*.self_attn.{prefix}{theirs}.weight": f"layers.*.attention.indexer.{ours}.weight"
        for prefix in ("index_", "indexer.")
        for theirs, ours in (
            ("q_proj", "query_proj"),
            ("k_proj", "key_proj"),
            ("q_norm", "query_norm"),
            ("k_norm", "key_norm"),
        )
    },
}


def _minimax_m3(config: Config) -> Mapped:
    """Gemma's norms, also of queries and keys per head; clipped SwiGLU; experts by sigmoid scores.

    Some layers have an index, which chooses blocks of keys.
    """
    config.ignore(*MINIMAX_M3_UNREAD.split())
    config.restated(n_shared_experts=1)
    return llama_like(
        config,
        heads={"qk_norm": hf.PER_HEAD, "position": hf.rope(config, hf.head_dim(config), partial=1.0)},
        networks=lambda layers: hf.with_networks(
            _with_indexes(config, layers),
            hf.by_types(config, lambda: _minimax_m3_routed(config)),
            lambda: _clipped(config, "dense_intermediate_size"),
            lambda: _minimax_m3_experts(config),
        ),
        norm=hf.rmsnorm(config, offset=1),
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
    return hf.experts(
        config,
        expert=_clipped(config, "intermediate_size"),
        router={"scores": "sigmoid", "correction": True, "scale": config.number("routed_scaling_factor")},
        shared=_clipped(config, "shared_intermediate_size") if has_shared else None,
    )


def _minimax_m3_routed(config: Config) -> list[bool]:
    """Which layers have experts: those with a 1 in moe_layer_freq, else all but the first dense ones."""
    flags = config.per_layer("moe_layer_freq", config.layers())
    dense = config.count("first_k_dense_replace", default=0).value
    return [bool(flag) for flag in flags or (index >= dense for index in range(config.layers()))]


def _with_indexes(config: Config, layers: Sequence[Mapped]) -> list[Mapped]:
    """The layers, with an index in the attention of those that have one."""
    sparse = config.inner("sparse_attention_config", {})
    flags = _indexed(config, sparse)
    config.ignore(*(ours for ours, _ in INDEX.values()))
    if not any(flags):
        return [*layers]
    _refuse_other_choices(sparse, flags)
    index = {"kind": "blocks", **{field: _index_size(config, sparse, *keys) for field, keys in INDEX.items()}}
    # one object for equal layers: each is written out once
    plain = layers[0]
    indexed = {**plain, "attention": {**plain["attention"], "index": index}}
    return [indexed if flag else plain for flag in flags]


def _index_size(config: Config, sparse: Config, ours: str, published: str) -> ConfigValue[int]:
    """A size of the index: in sparse_attention_config, else by its own key."""
    return sparse.size(published) if published in sparse.data else config.size(ours)


def _indexed(config: Config, sparse: Config) -> list[bool]:
    """Which layers have an index: by `layer_types`, else by the flags of sparse_attention_config."""
    types = config.per_layer("layer_types", config.layers())
    if types is None:
        flags = sparse.per_layer("sparse_attention_freq", config.layers())
        return [bool(flag) for flag in flags or [0] * config.layers()]
    unknown = [kind for kind in types if kind not in (hf.FULL, SPARSE_LAYER)]
    if unknown:
        what = f"layer_types {hf.short_repr(unknown[0])} is not supported"
        raise config.error(what, f"known: {hf.FULL}, {SPARSE_LAYER}", config.place("layer_types"))
    return [kind == SPARSE_LAYER for kind in types]


def _refuse_other_choices(sparse: Config, flags: Sequence[bool]) -> None:
    """Refuse choices of blocks, and values of an index, that the class does not have."""
    for key, value in ONLY.items():
        sparse.only(key, value, default=value)
    without = sparse.per_layer("sparse_disable_index_value", len(flags)) or flags
    if any(flag and not off for flag, off in zip(flags, without, strict=True)):
        at = sparse.place("sparse_disable_index_value")
        raise sparse.error("an index with values is not supported", "the class has none", at)


FAMILIES = {
    "minimax_m2": Family(
        "MiniMax-M2: MiniMaxM2Config and MiniMaxM2ForCausalLM.",
        _minimax_m2,
        MINIMAX_M2_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
    **dict.fromkeys(
        ("minimax_m3", "minimax_m3_vl_text"),
        Family(
            "MiniMax-M3's language model: MiniMaxM3VLTextConfig and MiniMaxM3VLForCausalLM.",
            _minimax_m3,
            MINIMAX_M3_WEIGHTS,
            aliases={"num_experts": "num_local_experts"},
            defaults_of="minimax_m3_vl_text",
        ),
    ),
}
