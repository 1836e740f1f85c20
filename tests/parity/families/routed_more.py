"""Mixtures of experts by DeepSeek-V3's router and its kin, of which the importer makes the architecture."""

from parity.family import EPS, HEADS, SIZES, WINDOW, Family, rope

WIDTH = 20
BASE = {
    **SIZES,
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
    "moe_intermediate_size": WIDTH,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "routed_scaling_factor": 1.7,
}
NUMBERED = {**BASE, "num_experts": 8, "head_dim": 12}
RANKS = {
    "kv_lora_rank": 14,
    "q_lora_rank": 18,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 6,
    "num_key_value_heads": HEADS,
}
WINDOWS = {"sliding_window": WINDOW, "sliding_window_pattern": 2}
LATENT = {**BASE, **RANKS}
GROUPED = {"n_group": 4, "topk_group": 2}
QUIET = {"model.layers.*.self_attn.kv_a_proj_with_mqa.*": 0.03, "model.layers.*.self_attn.q_a_proj.*": 0.03}
LAYERED = {
    "full_attention": {**rope(), "partial_rotary_factor": 0.5},
    "sliding_attention": {**rope(50.0), "partial_rotary_factor": 0.7},
}
COHERE = {
    **NUMBERED,
    "model_type": "cohere2_moe",
    "layer_norm_eps": EPS,
    "rms_norm_eps": None,
    "tie_word_embeddings": True,
    **WINDOWS,
}
LAGUNA = {
    **NUMBERED,
    "model_type": "laguna",
    "num_attention_heads_per_layer": [4, 6],
    "shared_expert_intermediate_size": 14,
    "moe_routed_scaling_factor": 1.7,
    "sliding_window": WINDOW,
    "rope_parameters": LAYERED,
    "layer_types": ["sliding_attention", "full_attention"],
}
YARN = {"factor": 4.0, "beta_fast": 1.2, "beta_slow": 0.2, "mscale": 0.8, "mscale_all_dim": 0.5}
STRETCHED = rope(rope_type="yarn", original_max_position_embeddings=16, **YARN)

FAMILIES = {
    "dots1": Family(
        {
            **BASE,
            "model_type": "dots1",
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "attention_bias": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
        }
    ),
    "solar-open": Family(
        {**BASE, **GROUPED, "model_type": "solar_open", "head_dim": 12, "attention_bias": True}
    ),
    "exaone-moe": Family(
        {
            **NUMBERED,
            **GROUPED,
            "model_type": "exaone_moe",
            "sliding_window": WINDOW,
            "sliding_window_pattern": 2,
        }
    ),
    "hy-v3": Family(
        {**NUMBERED, "model_type": "hy_v3", "attention_bias": True, "router_scaling_factor": 1.7}
    ),
    "glm4-moe-lite": Family({**LATENT, "model_type": "glm4_moe_lite"}, quiet=QUIET),
    "glm4-moe-lite-no-q-lora": Family(
        {
            **LATENT,
            **GROUPED,
            "model_type": "glm4_moe_lite",
            "q_lora_rank": None,
            "rope_interleave": False,
            "attention_bias": True,
            "mlp_layer_types": ["sparse", "dense"],
            "rope_parameters": STRETCHED,
        },
        quiet=QUIET,
    ),
    "sarvam-mla": Family(
        {**LATENT, "model_type": "sarvam_mla", "q_lora_rank": None, "first_k_dense_replace": 1}, quiet=QUIET
    ),
    "axk1": Family({**LATENT, **GROUPED, "model_type": "axk1", "rope_parameters": STRETCHED}, quiet=QUIET),
    "afmoe": Family(
        {
            **NUMBERED,
            "model_type": "afmoe",
            "num_experts_per_tok": 3,
            "route_scale": 1.7,
            "mup_enabled": True,
            "attention_bias": True,
            "sliding_window": WINDOW,
            "global_attn_every_n_layers": 2,
        }
    ),
    "flint": Family(
        {
            **NUMBERED,
            "model_type": "flint",
            "num_hidden_layers": 5,
            "mlp_only_layers": [0],
            "shared_expert_intermediate_size": 14,
            "attention_bias": True,
            "sliding_window": WINDOW,
        }
    ),
    "flint-typed": Family(
        {
            **NUMBERED,
            "model_type": "flint",
            "norm_topk_prob": False,
            "mlp_only_layers": [],
            "shared_expert_intermediate_size": 14,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        }
    ),
    "kolibri1": Family(
        {
            **NUMBERED,
            "model_type": "kolibri1",
            "shared_expert_intermediate_size": 14,
            "norm_topk_prob": True,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        }
    ),
    "cohere2-moe": Family(COHERE),
    "cohere2-moe-prefix": Family(
        {
            **COHERE,
            "first_k_dense_replace": 1,
            "prefix_dense_intermediate_size": 36,
            "num_shared_experts": 2,
            "shared_expert_combination_strategy": "sum",
            "expert_selection_fn": "sigmoid",
            "rms_norm_eps": EPS,
        }
    ),
    "cohere2-moe-mean": Family({**COHERE, "num_shared_experts": 1, "num_hidden_layers": 4}),
    "laguna": Family({**LAGUNA, "gating": True}),
    "laguna-channels": Family({**LAGUNA, "gating": "per-element", "moe_router_logit_softcapping": 0.7}),
    "mimo-v2-flash": Family(
        {
            **BASE,
            "model_type": "mimo_v2_flash",
            "num_attention_heads": 8,
            "head_dim": 12,
            "v_head_dim": 6,
            "attention_bias": True,
            "sliding_window": WINDOW,
            "rope_parameters": LAYERED,
            "layer_types": ["sliding_attention", "full_attention"],
        }
    ),
    "minimax-m3": Family(
        {
            **BASE,
            "model_type": "minimax_m3_vl_text",
            "num_hidden_layers": 2,
            "head_dim": 12,
            "num_local_experts": 8,
            "dense_intermediate_size": 36,
            "shared_intermediate_size": 14,
            "swiglu_limit": 0.8,
            "mlp_layer_types": ["dense", "sparse"],
            "rope_parameters": rope(partial_rotary_factor=0.5),
        }
    ),
    # blocks of 3 tokens, of which a query reads its own, the one before and the best of the earlier ones
    "minimax-m3-indexed": Family(
        {
            **BASE,
            "model_type": "minimax_m3_vl_text",
            "num_hidden_layers": 2,
            "head_dim": 12,
            "num_local_experts": 8,
            "mlp_layer_types": ["sparse", "sparse"],
            "shared_intermediate_size": 14,
            "swiglu_limit": 0.8,
            "rope_parameters": rope(partial_rotary_factor=0.5),
            "sparse_attention_config": {
                "use_sparse_attention": True,
                "sparse_num_index_heads": 2,
                "sparse_index_dim": 10,
                "sparse_block_size": 3,
                "sparse_topk_blocks": 3,
                "sparse_local_block": 2,
                "sparse_score_type": "max",
                "sparse_init_block": 0,
                "sparse_attention_freq": [1, 1],
                "sparse_disable_index_value": [1, 1],
            },
        },
        quiet={"model.layers.*.self_attn.indexer.k_proj.weight": 0.1},
        inert={"groups.0.layer.attention.index: pairing=half": "as the attention pairs"},
    ),
    "cohere-compass": Family(
        {
            **SIZES,
            "model_type": "cohere_compass_text",
            "layer_norm_eps": EPS,
            "logit_scale": 0.25,
            "attention_bias": True,
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {**rope(), "mrope_section": [2, 1, 1]},
                "full_attention": None,
            },
        }
    ),
}
