"""Tiny configs of the Llama-like families, drawn at random from what each family's files may say.

A piece of every list, merged.
"""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

Pieces = list[dict[str, Any]]

TINY = {
    "vocab_size": 61,
    "hidden_size": 96,
    "intermediate_size": 52,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}

DEPTHS: Pieces = [{"num_hidden_layers": depth} for depth in (1, 2, 5, 13)]
HEADS: Pieces = [
    {"num_attention_heads": heads, "num_key_value_heads": kv}
    for heads, kv in ((4, 2), (6, 1), (3, 3), (12, 4))
]
ALIKE: Pieces = [{"num_attention_heads": 6, "num_key_value_heads": None}]
UNSTATED: Pieces = [{"num_attention_heads": 4}]
WIDTHS: Pieces = [{}, {"head_dim": 20}, {"head_dim": 36}]
TIES: Pieces = [{}, {"tie_word_embeddings": True}, {"tie_word_embeddings": False}]
BIASES: Pieces = [{}, {"attention_bias": True}, {"attention_bias": False}]
MLP_BIASES: Pieces = [{}, {"mlp_bias": True}]
WINDOWS: Pieces = [{}, {"sliding_window": 5}, {"sliding_window": None}]
SOME_WINDOWS: Pieces = [
    {},
    {"use_sliding_window": True, "sliding_window": 5},
    {"use_sliding_window": True, "max_window_layers": 1},
    {"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 0},
]
NO_WINDOW: Pieces = [{"use_sliding_window": True, "sliding_window": None}]
ORIGINAL = {"original_max_position_embeddings": 16}
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL}
YARN = {"factor": 4.0, **ORIGINAL}
ROPES: Pieces = [
    {},
    {"rope_theta": 500},
    {"rope_theta": 3e5, "rope_scaling": None},
    {"rope_scaling": {"type": "linear", "factor": 3.0}},
    {"rope_scaling": {"rope_type": "dynamic", "factor": 3.0}, "rope_theta": 900.0},
    {"rope_scaling": {"rope_type": "llama3", **LLAMA3}, "rope_theta": 700.0},
    {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "rope_theta": 80.0}, "rope_theta": 700.0},
    {"rope_scaling": {"rope_type": "yarn", **YARN, "beta_fast": 4, "truncate": False}},
    {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 40.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 50.0},
]
PARTIAL: Pieces = [
    {},
    {"partial_rotary_factor": 0.5},
    {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}},
]
ACTIVATIONS: Pieces = [{}, {"hidden_act": "gelu"}, {"hidden_act": "gelu_new"}, {"hidden_act": "relu"}]
GEMMA_ACTIVATIONS: Pieces = [{}, {"hidden_activation": "gelu"}, {"hidden_act": "relu"}]
SHARE: Pieces = [{}, {"norm_topk_prob": True}, {"norm_topk_prob": False}]
SPARSE: Pieces = [
    {},
    {"decoder_sparse_step": 2},
    {"mlp_only_layers": [0, 3]},
    {"decoder_sparse_step": 3, "mlp_only_layers": [2, 99]},
]
SCALARS: Pieces = [{}, {"query_pre_attn_scalar": 24}, {"query_pre_attn_scalar": 256}]
CAPS: Pieces = [
    {},
    {"attn_logit_softcapping": None, "final_logit_softcapping": 9.0},
    {"attn_logit_softcapping": 7.0},
]
NAMED = {
    "layer_types": [
        "full_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
        "sliding_attention",
    ]
}
NESTED = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
    "full_attention": {"rope_type": "linear", "factor": 2.0},
}
LONG = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2.0, 3.0, 4.0, 6.0]}
EIGHT = {"num_attention_heads": 12, "num_key_value_heads": 12}  # 96 / 12 = 8 wide, four pairs

LLAMA = [DEPTHS, TIES, ROPES, ACTIVATIONS]
OPTIONS: dict[str, list[Pieces]] = {
    "llama": [*LLAMA, HEADS + ALIKE + UNSTATED, WIDTHS, BIASES, MLP_BIASES],
    "mistral": [*LLAMA, HEADS, WIDTHS, WINDOWS],
    "mixtral": [
        *LLAMA,
        HEADS,
        WIDTHS,
        WINDOWS,
        [{"num_local_experts": 6}, {"num_experts": 4, "num_experts_per_tok": 3}],
    ],
    "qwen2": [*LLAMA, HEADS + ALIKE, WIDTHS, SOME_WINDOWS + NO_WINDOW],
    "qwen2_moe": [*LLAMA, HEADS, WIDTHS, SOME_WINDOWS, SHARE, SPARSE, [{}, {"qkv_bias": False}]],
    "qwen3": [*LLAMA, HEADS + ALIKE, WIDTHS, BIASES, SOME_WINDOWS + NO_WINDOW],
    "qwen3_moe": [*LLAMA, HEADS, WIDTHS, BIASES, SOME_WINDOWS, SHARE, SPARSE],
    "gemma": [*LLAMA, HEADS, WIDTHS, BIASES],
    "gemma2": [DEPTHS, TIES, ROPES, GEMMA_ACTIVATIONS, HEADS, WIDTHS, BIASES, WINDOWS[:2], SCALARS, CAPS],
    "gemma3_text": [
        DEPTHS,
        TIES,
        GEMMA_ACTIVATIONS,
        HEADS,
        WIDTHS,
        BIASES,
        WINDOWS[:2],
        SCALARS,
        CAPS[:2],
        [{}, {"sliding_window_pattern": 2}, {"sliding_window_pattern": 3}],
        [
            {},
            {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            {"rope_local_base_freq": 70.0, "rope_theta": 90.0},
            {"rope_parameters": NESTED},
        ],
    ],
    "phi3": [
        DEPTHS,
        TIES,
        ACTIVATIONS,
        HEADS + ALIKE + UNSTATED,
        WINDOWS,
        [{}, {"rope_theta": 70.0}, {"partial_rotary_factor": 0.5}],
    ],
    "olmo": [*LLAMA, HEADS + ALIKE + UNSTATED, WIDTHS, BIASES, [{}, {"clip_qkv": 0.5}, {"clip_qkv": None}]],
    "olmo2": [*LLAMA, HEADS + ALIKE + UNSTATED, WIDTHS, BIASES],
    "granite": [
        *LLAMA,
        HEADS + ALIKE + UNSTATED,
        WIDTHS,
        BIASES,
        MLP_BIASES,
        [
            {},
            {
                "embedding_multiplier": 12.0,
                "logits_scaling": 16.0,
                "residual_multiplier": 0.22,
                "attention_multiplier": 0.1,
            },
        ],
    ],
    "smollm3": [
        *LLAMA,
        HEADS + ALIKE,
        WIDTHS,
        BIASES,
        MLP_BIASES,
        [{}, {"use_sliding_window": True, "sliding_window": 5}, {"sliding_window": 5}],
        [{}, {"no_rope_layer_interval": 2}, {"no_rope_layers": [0, 1, 1] * 5}],
    ],
    "nemotron": [*LLAMA, HEADS, WIDTHS, BIASES, MLP_BIASES, PARTIAL],
    "starcoder2": [*LLAMA, HEADS, WIDTHS, WINDOWS, [{}, {"use_bias": False}]],
    "cohere": [
        *LLAMA,
        HEADS + ALIKE + UNSTATED,
        WIDTHS,
        BIASES,
        [{}, {"use_qk_norm": True}],
        [{}, {"logit_scale": 1.0}],
    ],
    "stablelm": [
        *LLAMA,
        HEADS,
        [{}, {"use_qkv_bias": True}],
        [{}, {"qk_layernorm": True}],
        [{}, {"use_parallel_residual": True}],
        PARTIAL,
    ],
    "glm": [*LLAMA, HEADS, WIDTHS, BIASES, PARTIAL],
    "glm4_moe": [
        *LLAMA,
        HEADS,
        WIDTHS,
        BIASES,
        SHARE,
        PARTIAL,
        [{}, {"use_qk_norm": True}],
        [{}, {"first_k_dense_replace": 0}, {"first_k_dense_replace": 3}],
        [{}, {"n_shared_experts": 0}, {"n_shared_experts": 3}],
        [{}, {"n_group": 2, "topk_group": 1}],
        [{}, {"routed_scaling_factor": 2.5}],
    ],
}
"""What a file of the family may say beyond its sizes."""

ALWAYS: dict[str, dict[str, Any]] = {
    "qwen2_moe": {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 20,
        "shared_expert_intermediate_size": 28,
    },
    "qwen3_moe": {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20},
    "glm4_moe": {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20},
}
CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "llama": {"longrope": {**EIGHT, "rope_scaling": {"type": "longrope", **LONG, **ORIGINAL, "factor": 4.0}}},
    "mistral": {"kv-heads-unstated": {"num_attention_heads": 16, "head_dim": 8, "num_hidden_layers": 2}},
    "qwen2": {
        "windows-from-the-second": {
            **HEADS[0],
            "num_hidden_layers": 3,
            **SOME_WINDOWS[1],
            "max_window_layers": 1,
        },
        "layers-named": {**HEADS[0], "num_hidden_layers": 5, **NAMED, "use_sliding_window": True},
    },
    "qwen3": {
        "layers-named": {
            **HEADS[0],
            "num_hidden_layers": 5,
            **NAMED,
            "use_sliding_window": True,
            "sliding_window": 6,
        }
    },
    "gemma2": {"layers-named": {**HEADS[0], "num_hidden_layers": 5, **NAMED}},
    "gemma3_text": {
        "layers-named": {**HEADS[0], "num_hidden_layers": 5, **NAMED, "sliding_window_pattern": 2},
        "far-layers-scaled": {
            **HEADS[0],
            "num_hidden_layers": 7,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    },
    "phi3": {
        "longrope": {**EIGHT, **ORIGINAL, "rope_scaling": {"type": "longrope", **LONG}},
        "longrope-once-su": {**EIGHT, **ORIGINAL, "rope_scaling": {"type": "su", **LONG, **ORIGINAL}},
    },
    "nemotron": {
        "an-odd-share": {"num_attention_heads": 4, "num_key_value_heads": 2, "partial_rotary_factor": 0.3}
    },
    "smollm3": {
        "layers-named": {
            **HEADS[0],
            "num_hidden_layers": 5,
            **NAMED,
            "use_sliding_window": True,
            "sliding_window": 4,
        },
    },
}
"""Cases that a draw would seldom or never meet."""

DRAWS = 4


def draw(family: str, number: int) -> dict[str, Any]:
    """One of the family's random configs.

    Always the same for the same number, and as many draws as pieces use them all.
    """
    chance = random.Random(family)  # noqa: S311
    config = {**TINY, **ALWAYS.get(family, {})}
    for pieces in OPTIONS[family]:
        config |= chance.sample(pieces, len(pieces))[number % len(pieces)]
    return deepcopy(config)  # transformers writes into the mappings it is given


def cases() -> list[tuple[str, str, dict[str, Any]]]:
    """(family, name, config) of every draw and every chosen case."""
    drawn = [(family, str(number), draw(family, number)) for family in OPTIONS for number in range(DRAWS)]
    chosen = [
        (family, name, deepcopy({**TINY, **config}))
        for family, named in CHOSEN.items()
        for name, config in named.items()
    ]
    return drawn + chosen
