"""Decoders of Mamba-1 mixers, Jamba with attention and experts beside them, Griffin, and RWKV-4."""

from parity.family import D_FF, EPS, HEADS, KV_HEADS, SIZES, WINDOW, Family, rope

MAMBA = {
    **{key: SIZES[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "pad_token_id")},
    "tie_word_embeddings": False,
    "layer_norm_epsilon": EPS,
    "state_size": 5,
    "conv_kernel": 3,
}
JAMBA = {
    **SIZES,
    "model_type": "jamba",
    "num_hidden_layers": 5,
    "rms_norm_eps": EPS,
    "num_key_value_heads": KV_HEADS,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 5,
    "mamba_d_conv": 3,
    "mamba_expand": 3,
}
GRIFFIN = {
    **SIZES,
    "model_type": "recurrent_gemma",
    "num_hidden_layers": 4,
    "rms_norm_eps": EPS,
    "intermediate_size": 2 * D_FF,
    "attention_window_size": WINDOW,
    "conv1d_width": 3,
    "logits_soft_cap": 3.0,
    "rope_parameters": rope(),
    "tie_word_embeddings": True,
}
RWKV = {
    **{key: SIZES[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "pad_token_id")},
    "model_type": "rwkv",
    "intermediate_size": D_FF,
    "layer_norm_epsilon": EPS,
    "tie_word_embeddings": False,
}

FAMILIES = {
    "mamba": Family({**MAMBA, "model_type": "mamba", "expand": 3, "hidden_act": "gelu"}),
    "mamba_biased": Family(
        {
            **MAMBA,
            "model_type": "mamba",
            "intermediate_size": 40,
            "time_step_rank": 7,
            "conv_kernel": 4,
            "use_bias": True,
            "use_conv_bias": False,
            "tie_word_embeddings": True,
        }
    ),
    "jamba": Family({**JAMBA, "num_experts": 6}),
    "jamba_dense": Family(
        {
            **JAMBA,
            "num_experts": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 0,
            "num_key_value_heads": HEADS,
            "mamba_dt_rank": 3,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "tie_word_embeddings": True,
        }
    ),
    "recurrent_gemma": Family({**GRIFFIN, "num_key_value_heads": 1}),
    "recurrent_gemma_wide": Family(
        {
            **GRIFFIN,
            "lru_width": 48,
            "block_types": ["attention", "recurrent"],
            "attention_bias": True,
            "conv1d_width": 4,
            "hidden_activation": "gelu",
            "tie_word_embeddings": False,
        }
    ),
    "rwkv": Family(RWKV),
    "rwkv_wide": Family(
        {
            **RWKV,
            "attention_hidden_size": 44,
            "intermediate_size": None,
            "tie_word_embeddings": True,
            "layer_norm_epsilon": 1e-5,
        },
    ),
    "falcon_mamba": Family({**MAMBA, "model_type": "falcon_mamba", "mixer_rms_eps": 0.02}),
}
