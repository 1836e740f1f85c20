"""Families of gated delta nets, with attention in some layers."""

from __future__ import annotations

from typing import Any

from parity.family import EPS, HEAD_DIM, SIZES, Family, rope

LINEAR, FULL = "linear_attention", "full_attention"
HYBRID: dict[str, Any] = {
    **SIZES,
    "rms_norm_eps": EPS,
    "num_hidden_layers": 4,
    "layer_types": [LINEAR, FULL, LINEAR, LINEAR],
}
DELTA: dict[str, Any] = {
    **HYBRID,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 5,
    "linear_value_head_dim": 7,
    "linear_conv_kernel_dim": 3,
}
GATED: dict[str, Any] = {
    **DELTA,
    "head_dim": HEAD_DIM,
    "rope_parameters": rope(partial_rotary_factor=0.5),
}
EXPERTS: dict[str, Any] = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 24,
}
NEXT: dict[str, Any] = {**GATED, **EXPERTS, "model_type": "qwen3_next"}
OLMO: dict[str, Any] = {**DELTA, "model_type": "olmo_hybrid", "linear_num_value_heads": 4}
"""Its class stores the one convolution of memory in three parts of equal width, whatever the widths are."""

EVEN = {"linear_key_head_dim": 6, "linear_value_head_dim": 3}
KIMI: dict[str, Any] = {
    **HYBRID,
    "model_type": "kimi_linear",
    "linear_num_heads": 3,
    "linear_head_dim": 6,
    "linear_conv_kernel_dim": 3,
    "num_key_value_heads": SIZES["num_attention_heads"],
    "kv_lora_rank": 14,
    "q_lora_rank": None,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 6,
    "v_head_dim": 10,
    "moe_intermediate_size": 20,
    "num_experts": 8,
    "num_experts_per_token": 3,
    "num_shared_experts": 2,
    "routed_scaling_factor": 1.7,
}
QUIET = {
    "model.layers.*.self_attn.kv_a_proj_with_mqa.weight": 0.001,
}
"""The eps of the latent's norm is 1e-6 and no key changes it: only a small latent feels it."""

FAMILIES = {
    "qwen3_next": Family(NEXT),
    "qwen3_next-plain": Family(
        {
            **{key: value for key, value in NEXT.items() if key != "layer_types"},
            "full_attention_interval": 2,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
            "norm_topk_prob": False,
            "attention_bias": True,
            "linear_num_value_heads": 2,
        }
    ),
    "qwen3_5_text": Family({**GATED, "model_type": "qwen3_5_text", "tie_word_embeddings": True}),
    "qwen3_5_text-biased": Family({**GATED, "model_type": "qwen3_5_text", "attention_bias": True}),
    "qwen3_5_moe_text": Family({**GATED, **EXPERTS, "model_type": "qwen3_5_moe_text"}),
    "olmo_hybrid": Family({**OLMO, **EVEN, "rope_parameters": {"rope_type": "default", "rope_theta": None}}),
    "olmo_hybrid-rotary": Family(
        {
            **OLMO,
            "linear_key_head_dim": 4,
            "rope_parameters": rope(),
            "linear_allow_neg_eigval": False,
            "attention_bias": True,
        },
        in_memory=True,
    ),
    "kimi_linear": Family(KIMI, quiet=QUIET),
    "kimi_linear-grouped": Family(
        {
            **{key: value for key, value in KIMI.items() if key != "layer_types"},
            "linear_attn_config": {
                "full_attn_layers": [1, 3],
                "kda_layers": [2, 4],
                "head_dim": 6,
                "num_heads": 3,
                "short_conv_kernel_size": 4,
            },
            "q_lora_rank": 16,
            "num_expert_group": 4,
            "topk_group": 2,
            "moe_renormalize": False,
            "first_k_dense_replace": 2,
        },
        quiet={**QUIET, "model.layers.*.self_attn.q_a_proj.weight": 0.001},
    ),
}
