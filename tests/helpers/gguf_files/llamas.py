"""Llama and its kin, tiny, as llama.cpp would store them.

A config, the metadata that `conversion/*.py` of llama.cpp writes, names.
"""

from gguf_files.names import EXPERTS, LLAMA, SANDWICH
from gguf_files.stored import CTX, EPS, HD, LN, RMS, ROPE, THETA, WIDE, WIDE_KEYS, D, H, V, of

YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
OLMO3_ROPE = {
    "rope_parameters": {f"{kind}_attention": THETA["rope_parameters"] for kind in ("full", "sliding")}
}
LINEAR = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}

STORED = {
    "llama": of(
        "llama",
        {"model_type": "llama", **EPS, **THETA},
        {**RMS, **ROPE, "vocab_size": V, "rope.dimension_count": 8},
    ),
    "llama-wide": of(
        "llama",
        {"model_type": "llama", **WIDE, **EPS, **THETA},
        {**RMS, **ROPE, **WIDE_KEYS, "rope.dimension_count": HD},
    ),
    "llama-biased-tied": of(
        "llama",
        {
            "model_type": "llama",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            **EPS,
            **THETA,
        },
        {**RMS, **ROPE},
    ),
    "llama-yarn": of(
        "llama",
        {
            "model_type": "llama",
            **EPS,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 500.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
        {
            **RMS,
            **ROPE,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16,
        },
    ),
    "qwen2": of("qwen2", {"model_type": "qwen2", **EPS, **THETA}, {**RMS, **ROPE}),
    "qwen3": of("qwen3", {"model_type": "qwen3", **WIDE, **EPS, **THETA}, {**RMS, **ROPE, **WIDE_KEYS}),
    "gemma": of(
        "gemma",
        {
            "model_type": "gemma",
            **WIDE,
            **EPS,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        {**RMS, **WIDE_KEYS},
    ),
    "gemma2": of(
        "gemma2",
        {
            "model_type": "gemma2",
            **WIDE,
            **EPS,
            "query_pre_attn_scalar": HD,
            "sliding_window": 7,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 25.0,
        },
        {
            **RMS,
            **WIDE_KEYS,
            "attention.sliding_window": 7,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 25.0,
        },
        {**LLAMA, **SANDWICH},
    ),
    "gemma3": of(
        "gemma3",
        {
            "model_type": "gemma3_text",
            **WIDE,
            **EPS,
            "query_pre_attn_scalar": HD,
            "num_hidden_layers": 8,
            "sliding_window": 7,
            "rope_theta": 5e5,
            **LINEAR,
        },
        {
            **RMS,
            **WIDE_KEYS,
            "block_count": 8,
            "attention.sliding_window": 7,
            "rope.freq_base": 5e5,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
        {**LLAMA, **SANDWICH},
    ),
    "phi3": of(
        "phi3",
        {"model_type": "phi3", "sliding_window": 9, **EPS, **THETA, "partial_rotary_factor": 0.5},
        {
            **RMS,
            **ROPE,
            "rope.dimension_count": 4,
            "attention.sliding_window": 9,
            "rope.scaling.original_context_length": CTX,
        },
        {
            **LLAMA,
            "model.layers.N.self_attn.qkv_proj": "blk.N.attn_qkv",
            "model.layers.N.mlp.gate_up_proj": "blk.N.ffn_up",
        },
    ),
    "olmo": of(
        "olmo", {"model_type": "olmo", **THETA, "clip_qkv": 3.0}, {**LN, **ROPE, "attention.clamp_kqv": 3.0}
    ),
    "olmo2": of("olmo2", {"model_type": "olmo2", **EPS, **THETA}, {**RMS, **ROPE}, {**LLAMA, **SANDWICH}),
    "olmo3": of(
        "olmo2",
        {"model_type": "olmo3", "sliding_window": 7, "num_hidden_layers": 5, **EPS, **OLMO3_ROPE},
        {**RMS, **ROPE, "block_count": 5, "attention.sliding_window": 7},
        {**LLAMA, **SANDWICH},
    ),
    "olmo3-yarn": of(
        "olmo2",
        {
            "model_type": "olmo3",
            "sliding_window": 7,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            **EPS,
            "rope_parameters": {**OLMO3_ROPE["rope_parameters"], "full_attention": YARN},
        },
        {
            **RMS,
            **ROPE,
            "attention.sliding_window": 7,
            "attention.sliding_window_pattern": [False, True, True],
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16,
        },
        {**LLAMA, **SANDWICH},
    ),
    "mistral": of(
        "llama",
        {"model_type": "mistral", "sliding_window": 9, **WIDE, **EPS, **THETA},
        {**RMS, **ROPE, **WIDE_KEYS, "rope.dimension_count": HD, "attention.sliding_window": 9},
    ),
    "mixtral-window": of(
        "llama",
        {
            "model_type": "mixtral",
            "sliding_window": 9,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            **EPS,
            **THETA,
        },
        {
            **RMS,
            **ROPE,
            "attention.sliding_window": 9,
            "expert_count": 4,
            "expert_used_count": 2,
        },
        {**LLAMA, **EXPERTS},
    ),
    **{
        f"chatglm-{form}": of(
            "chatglm",
            {
                "model_type": "glm",
                "head_dim": D // H,
                "attention_bias": form == "biased",
                **EPS,
                "rope_parameters": {**THETA["rope_parameters"], "partial_rotary_factor": 0.5},
            },
            {**RMS, **ROPE, "rope.dimension_count": D // H // 2},
            {**LLAMA, "model.layers.N.mlp.gate_up_proj": "blk.N.ffn_up"},
        )
        for form in ("biased", "plain")
    },
    "granite": of(
        "granite",
        {
            "model_type": "granite",
            **EPS,
            **THETA,
            "attention_multiplier": 0.25,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.5,
            "logits_scaling": 8.0,
        },
        {
            **RMS,
            **ROPE,
            "attention.scale": 0.25,
            "embedding_scale": 12.0,
            "residual_scale": 0.5,
            "logit_scale": 8.0,
            "vocab_size": V,
            "rope.dimension_count": 8,
        },
    ),
    "smollm3": of(
        "smollm3", {"model_type": "smollm3", **EPS, **THETA}, {**RMS, **ROPE, "rope.dimension_count": 8}
    ),
}
