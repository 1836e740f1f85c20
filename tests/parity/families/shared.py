"""Families whose layers share keys and values or have embeddings of their own: Gemma 3n and Gemma 4."""

from parity.family import EPS, HEAD_DIM, SIZES, WINDOW, Family, rope

SLIDING, FULL = "sliding_attention", "full_attention"
BASE = {**SIZES, "head_dim": HEAD_DIM, "rms_norm_eps": EPS, "sliding_window": WINDOW, "pad_token_id": 0}
GEMMA3N = {
    **BASE,
    "model_type": "gemma3n_text",
    "num_hidden_layers": 8,
    "layer_types": [SLIDING, FULL] * 4,
    "num_kv_shared_layers": 4,
    "intermediate_size": [40, 40, 40, 40, 24, 24, 24, 24],
    "activation_sparsity_pattern": [0.7, 0.7, 0.7, 0.7, 0.0, 0.0, 0.0, 0.0],
    "altup_num_inputs": 3,
    "altup_active_idx": 1,
    "laurel_rank": 5,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": 50,
    "final_logit_softcapping": 3.0,
    "rope_parameters": {SLIDING: rope(), FULL: rope(1000.0)},
}
GEMMA4 = {
    **BASE,
    "model_type": "gemma4_text",
    "num_hidden_layers": 6,
    "layer_types": [SLIDING, FULL] * 3,
    "global_head_dim": 16,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": 53,
    "final_logit_softcapping": 3.0,
    "rope_parameters": {
        SLIDING: rope(),
        FULL: rope(1000.0, rope_type="proportional", partial_rotary_factor=0.5, factor=2.0),
    },
}
EXPERTS = {
    "hidden_size_per_layer_input": 0,
    "enable_moe_block": True,
    "num_experts": 6,
    "top_k_experts": 2,
    "moe_intermediate_size": 20,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
    "num_hidden_layers": 2,
    "layer_types": [SLIDING, FULL],
}
UNIFIED = {"model_type": "gemma4_unified_text", "hidden_size_per_layer_input": None}

FAMILIES = {
    "gemma3n": Family(GEMMA3N),
    "gemma3n own keys": Family(
        {
            **GEMMA3N,
            "num_hidden_layers": 2,
            "layer_types": [SLIDING, FULL],
            "num_kv_shared_layers": 0,
            "intermediate_size": 40,
            "activation_sparsity_pattern": None,
            "altup_correct_scale": False,
            "altup_active_idx": 0,
            "attention_bias": True,
            "tie_word_embeddings": True,
        }
    ),
    "gemma4": Family({**GEMMA4, "num_kv_shared_layers": 2, "use_double_wide_mlp": True}),
    "gemma4 experts": Family({**GEMMA4, **EXPERTS}),
    "gemma4 unified": Family(
        {
            key: value
            for key, value in {**GEMMA4, **UNIFIED}.items()
            if value is not None and "per_layer" not in key
        }
    ),
}
