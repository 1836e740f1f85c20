"""Models of linear attention with decays: MiniMax-01, xLSTM."""

from parity.family import EPS, HEADS, SIZES, THETA, WINDOW, Family, rope

FULL, LINEAR = "full_attention", "linear_attention"
MINIMAX = {
    **SIZES,
    "model_type": "minimax",
    "num_hidden_layers": 4,
    "rms_norm_eps": EPS,
    "head_dim": 12,
    "intermediate_size": 20,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "block_size": 7,
    "rope_parameters": rope(),
    "full_attn_alpha_factor": 2.0,
    "full_attn_beta_factor": 0.7,
    "linear_attn_alpha_factor": 3,
    "linear_attn_beta_factor": 0.8,
    "mlp_alpha_factor": 1.5,
    "mlp_beta_factor": 0.9,
}
# the class makes the norm of lightning attention with an eps of 1e-6: quiet values make it matter
QUIET = {"model.layers.*.self_attn.qkv_proj.weight": 0.05}
XLSTM = {
    "model_type": "xlstm",
    "vocab_size": 53,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_heads": 4,
    "qk_dim_factor": 0.75,
    "v_dim_factor": 1.25,
    "ffn_proj_factor": 1.3,
    "ffn_round_up_to_multiple_of": 7,
    "chunk_size": 7,
    "norm_eps": EPS,
    "eps": 0.1,
    "gate_soft_cap": 1.5,
    "output_logit_soft_cap": 3.0,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
LING = {
    **SIZES,
    "model_type": "bailing_hybrid",
    "num_hidden_layers": 4,
    "num_key_value_heads": HEADS,
    "rms_norm_eps": EPS,
    "rope_theta": THETA,
    "moe_intermediate_size": 20,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "kv_lora_rank": 14,
    "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 6,
    "v_head_dim": 10,
    "head_dim": 12,
    "short_conv_kernel_size": 3,
    "layer_group_size": 2,
    "kda_lower_bound": -2.0,
    "num_mtp_layers": 0,
}
# the eps of the latent's norm is 1e-6 and no key changes it: only a small latent feels it
QUIET_LATENT = {f"model.layers.*.self_attn.kv_a_proj_with_mqa.{which}": 0.001 for which in ("weight", "bias")}

FAMILIES = {
    "minimax": Family(MINIMAX, quiet=QUIET),
    "minimax_windowed": Family(
        {
            **{key: value for key, value in MINIMAX.items() if not key.endswith("_factor")},
            "layer_types": [LINEAR, LINEAR, FULL, LINEAR],
            "num_key_value_heads": HEADS,
            "head_dim": None,
            "sliding_window": WINDOW,
            "hidden_act": "relu",
            "tie_word_embeddings": True,
        },
        quiet=QUIET,
    ),
    "xlstm": Family(XLSTM),
    "xlstm_wide": Family(
        {**XLSTM, "num_blocks": 3, "num_heads": 2, "chunk_size": 30, "v_dim_factor": 2.0, "embedding_dim": 32}
    ),
    "bailing_hybrid": Family(LING, quiet=QUIET_LATENT),
    "bailing_hybrid_typed": Family(
        {
            **LING,
            "layer_types": [FULL, LINEAR, LINEAR, FULL],
            "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"],
            "short_conv_kernel_size": 4,
            "n_group": 1,
            "topk_group": 1,
            "norm_topk_prob": False,
            "attention_bias": True,
            "hidden_act": "relu",
        },
        quiet=QUIET_LATENT,
    ),
}
