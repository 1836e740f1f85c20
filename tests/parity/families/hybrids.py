"""Families that mix convolutions or state spaces with attention, layer by layer or side by side."""

from __future__ import annotations

from parity.family import EPS, SIZES, Family, rope

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

FAMILIES = {
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
    "lfm2_moe": Family(LFM2_MOE),
    "lfm2_moe-plain": Family({**LFM2_MOE, "use_expert_bias": False, "norm_topk_prob": False}),
}
