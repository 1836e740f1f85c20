"""Families that mix convolutions or state spaces with attention, layer by layer or side by side."""

from __future__ import annotations

from parity.family import EPS, SIZES, WINDOW, Family, rope

LFM = {
    **SIZES,
    "norm_eps": EPS,
    "rope_parameters": rope(),
    "num_hidden_layers": 4,
    "layer_types": ["conv", "full_attention", "conv", "conv"],
    "conv_L_cache": 4,
}
LFM2 = {**LFM, "model_type": "lfm2", "block_auto_adjust_ff_dim": False}
LFM2_MOE = {
    **LFM,
    "model_type": "lfm2_moe",
    "moe_intermediate_size": 20,
    "num_dense_layers": 1,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "routed_scaling_factor": 1.7,
}
LFM3 = {
    **SIZES,
    "model_type": "lfm3",
    "norm_eps": EPS,
    "num_hidden_layers": 4,
    "layer_types": ["conv", "full_attention", "sliding_attention", "conv"],
    "sliding_window": WINDOW,
    "head_dim": 12,
    "rope_parameters": {
        "full_attention": {**rope(), "rope_type": "proportional", "partial_rotary_factor": 0.5},
        "sliding_attention": rope(30.0),
    },
}

MAMBA2 = {
    "model_type": "mamba2",
    **{key: SIZES[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "tie_word_embeddings")},
    "num_heads": 8,
    "head_dim": 12,
    "expand": 3,
    "state_size": 10,
    "n_groups": 2,
    "chunk_size": 7,
    "layer_norm_epsilon": EPS,
}
BAMBA_MIXER = {
    "mamba_n_heads": 8,
    "mamba_expand": 3,
    "mamba_d_state": 10,
    "mamba_n_groups": 2,
    "mamba_d_conv": 3,
    "mamba_chunk_size": 7,
}
BAMBA = {
    **SIZES,
    **BAMBA_MIXER,
    "model_type": "bamba",
    "num_hidden_layers": 3,
    "attn_layer_indices": [1],
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
}
GRANITE = {
    **{key: value for key, value in BAMBA.items() if key != "attn_layer_indices"},
    "model_type": "granitemoehybrid",
    "layer_types": ["mamba", "attention", "mamba"],
    "shared_intermediate_size": 28,
    "num_local_experts": 6,
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.4,
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.0,
}
NEMOTRON = {
    **{key: value for key, value in SIZES.items() if key != "num_hidden_layers"},
    "model_type": "nemotron_h",
    "layers_block_type": ["mamba", "moe", "attention", "mlp", "mamba"],
    "head_dim": 12,
    "ssm_state_size": 10,
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "chunk_size": 7,
    "time_step_min": 0.3,
    "n_routed_experts": 6,
    "moe_intermediate_size": 20,
    "moe_shared_expert_intermediate_size": 28,
    "routed_scaling_factor": 1.7,
    "layer_norm_epsilon": EPS,
}
FALCON_H1 = {
    **SIZES,
    **BAMBA_MIXER,
    "model_type": "falcon_h1",
    "mamba_d_ssm": 64,
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
}
MULTIPLIERS = {
    "embedding_multiplier": 1.7,
    "lm_head_multiplier": 0.6,
    "key_multiplier": 0.5,
    "attention_in_multiplier": 1.3,
    "attention_out_multiplier": 0.7,
    "ssm_in_multiplier": 0.8,
    "ssm_out_multiplier": 1.4,
    "mlp_multipliers": [1.5, 0.9],
    "ssm_multipliers": [0.6, 1.2, 0.7, 1.4, 0.9],
}

FAMILIES = {
    "falcon_h1": Family(FALCON_H1),
    "falcon_h1-scaled": Family({**FALCON_H1, **MULTIPLIERS, "mamba_rms_norm": True, "projectors_bias": True}),
    "falcon_h1-expanded": Family(
        {
            **FALCON_H1,
            "mamba_d_ssm": None,
            "mamba_rms_norm": True,
            "mamba_norm_before_gate": False,
            "mamba_proj_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
        }
    ),
    "mamba2": Family(MAMBA2),
    "mamba2-biased": Family(
        {**MAMBA2, "use_bias": True, "use_conv_bias": False, "tie_word_embeddings": True}
    ),
    "mamba2-limited": Family({**MAMBA2, "n_groups": 1, "time_step_limit": [0.2, 1.1], "hidden_act": "gelu"}),
    "bamba": Family(BAMBA),
    "bamba-biased": Family(
        {**BAMBA, "mamba_proj_bias": True, "attention_bias": True, "mlp_bias": True, "mamba_d_head": 12}
    ),
    "granitemoehybrid": Family(GRANITE),
    "granitemoehybrid-rope": Family({**GRANITE, "num_local_experts": 0, "position_embedding_type": "rope"}),
    "nemotron_h": Family(NEMOTRON),
    "nemotron_h-latent": Family(
        {
            **NEMOTRON,
            "moe_latent_size": 24,
            "mlp_bias": True,
            "use_bias": True,
            "n_routed_experts": 8,
            "n_group": 4,
            "topk_group": 2,
        }
    ),
    "lfm2": Family(LFM2),
    "lfm2-biased": Family({**LFM2, "conv_bias": True, "conv_L_cache": 3}),
    "lfm2-adjusted": Family(
        {
            **{key: value for key, value in LFM.items() if key != "layer_types"},
            "model_type": "lfm2",
            "full_attn_idxs": [0, 2],
            "block_ffn_dim_multiplier": 1.3,
            "block_multiple_of": 8,
        }
    ),
    "lfm3": Family(LFM3),
    "lfm3-plain": Family(
        {**LFM3, "use_sandwich_norm": False, "use_attention_gate": False, "conv_bias": True}
    ),
    "lfm2_moe": Family(LFM2_MOE),
    "lfm2_moe-plain": Family({**LFM2_MOE, "use_expert_bias": False, "norm_topk_prob": False}),
}
