"""Families with short convolutions behind projections and sublayers: Inkling, ZAYA1."""

from __future__ import annotations

from parity.family import EPS, SIZES, WINDOW, Family

INKLING = {
    **{key: value for key, value in SIZES.items() if key != "tie_word_embeddings"},
    "model_type": "inkling_text",
    "num_hidden_layers": 3,
    "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding"],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "head_dim": 12,
    "swa_num_attention_heads": 6,
    "swa_num_key_value_heads": 3,
    "swa_head_dim": 8,
    "sliding_window_size": WINDOW,
    "d_rel": 5,
    "rel_extent": 9,
    "conv_kernel_size": 3,
    "rms_norm_eps": EPS,
    "moe_intermediate_size": 20,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "route_scale": 1.7,
    "logits_mup_width_multiplier": 0.6,
}

ZAYA = {
    **{key: value for key, value in SIZES.items() if key not in ("intermediate_size", "tie_word_embeddings")},
    "model_type": "zaya",
    "num_hidden_layers": 4,
    "layer_types": ["hybrid", "hybrid_sliding", "hybrid", "hybrid_sliding"],
    "sliding_window": WINDOW,
    "rms_norm_eps": EPS,
    "head_dim": 12,
    "moe_intermediate_size": 20,
    "num_experts": 5,
    "router_hidden_size": 14,
    "cca_time0": 3,
    "cca_time1": 2,
    "rope_parameters": {
        "hybrid": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        "hybrid_sliding": {"rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 1.0},
    },
}

FAMILIES = {
    "inkling": Family(INKLING),
    "inkling-alike": Family(
        {
            **{key: value for key, value in INKLING.items() if not key.endswith("layer_types")},
            "num_hidden_layers": 2,
            "local_layer_ids": [1],
            "dense_mlp_idx": 1,
            "n_shared_experts": 1,
            "hidden_act": "gelu",
            "conv_kernel_size": 4,
            "log_scaling_n_floor": 4,
            "log_scaling_alpha": 0.5,
        }
    ),
    "zaya": Family(ZAYA),
    "zaya-biased": Family(
        {
            **{key: value for key, value in ZAYA.items() if key not in ("layer_types", "rope_parameters")},
            "num_hidden_layers": 2,
            "hidden_act": "gelu",
            "attention_bias": True,
            "lm_head_bias": True,
            "tie_word_embeddings": False,
            "cca_time0": 2,
            "cca_time1": 4,
        }
    ),
    "inkling_mm_model": Family(
        {
            "model_type": "inkling_mm_model",
            "text_config": INKLING,
            "vision_config": {
                "hidden_size": 16,
                "num_hidden_layers": 6,
                "num_attention_heads": 2,
                "patch_size": 4,
            },
            "audio_config": {"n_mel_bins": 4, "mel_vocab_size": 4},
        },
        cls="AutoModelForImageTextToText",
    ),
}
