"""Decoders of dense layers: a tiny config each, of which the importer makes the architecture."""

from parity.family import EPS, HEAD_DIM, HEADS, SIZES, THETA, WINDOW, Family, rope

BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}
WIDE = {**BASE, "head_dim": HEAD_DIM}
LAYERED = {**SIZES, "layer_norm_eps": EPS, "rope_parameters": rope()}
WINDOWS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
QUIET = {"model.layers.*.self_attn.kv_a_proj_with_mqa.*": 0.03, "model.layers.*.self_attn.q_a_proj.*": 0.03}
LATENT = {
    "num_key_value_heads": HEADS,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}
ALPHA = {"rope_type": "dynamic", "rope_theta": THETA, "factor": 1.0, "alpha": 3.0}
FACTORS = {"embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.5}

FAMILIES = {
    "arcee": Family({**BASE, "model_type": "arcee", "hidden_act": "relu2"}),
    "seed_oss": Family({**WIDE, "model_type": "seed_oss"}),
    "seed_oss_biased": Family(
        {
            **WIDE,
            "model_type": "seed_oss",
            "attention_bias": False,
            "attention_out_bias": True,
            "mlp_bias": True,
        }
    ),
    "cwm": Family({**WIDE, **WINDOWS, "model_type": "cwm"}),
    "helium": Family({**BASE, "model_type": "helium", "head_dim": 8, "attention_bias": True}),
    "hyperclovax": Family({**WIDE, **FACTORS, "model_type": "hyperclovax", "attention_multiplier": 0.2}),
    "hyperclovax_pre_norm": Family(
        {
            **WIDE,
            "model_type": "hyperclovax",
            "use_post_norm": False,
            "attention_bias": True,
            "mlp_bias": True,
        }
    ),
    "internlm3": Family({**WIDE, "model_type": "internlm3", "qkv_bias": True, "bias": True}),
    "iquestcoder": Family({**WIDE, "model_type": "iquestcoder"}),
    "jais2": Family({**LAYERED, "model_type": "jais2"}),
    "ministral": Family({**WIDE, **WINDOWS, "model_type": "ministral"}),
    "ernie4_5": Family({**WIDE, "model_type": "ernie4_5", "use_bias": True}),
    "cohere2": Family({**LAYERED, **WINDOWS, "model_type": "cohere2"}),
    "glm4": Family({**WIDE, "model_type": "glm4", "rope_parameters": rope(partial_rotary_factor=0.5)}),
    "vaultgemma": Family(
        {
            **WIDE,
            **WINDOWS,
            "model_type": "vaultgemma",
            "query_pre_attn_scalar": 20,
            "tie_word_embeddings": True,
        }
    ),
    "exaone4": Family({**WIDE, **WINDOWS, "model_type": "exaone4"}),
    "granite_swa": Family(
        {
            **BASE,
            **FACTORS,
            **WINDOWS,
            "model_type": "granite_swa",
            "attention_multiplier": 0.2,
            "layer_rope_theta": [THETA, 0],
        }
    ),
    "granite_swa_thetas": Family(
        {
            **BASE,
            **WINDOWS,
            "model_type": "granite_swa",
            "attention_multiplier": 0.2,
            "layer_rope_theta": [50, 200],
        }
    ),
    "persimmon": Family(
        {**LAYERED, "model_type": "persimmon", "rope_parameters": rope(partial_rotary_factor=0.5)}
    ),
    "persimmon_plain": Family({**LAYERED, "model_type": "persimmon", "qk_layernorm": False}),
    "youtu": Family({**BASE, **LATENT, "model_type": "youtu", "attention_bias": True}, quiet=QUIET),
    "hunyuan_v1_dense": Family(
        {**WIDE, "model_type": "hunyuan_v1_dense", "rope_parameters": ALPHA, "tie_word_embeddings": True}
    ),
    "nanochat": Family({**BASE, "model_type": "nanochat", "final_logit_softcapping": 0.5}),
    "ministral3": Family(
        {
            **WIDE,
            "model_type": "ministral3",
            "sliding_window": WINDOW,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": THETA,
                "factor": 4.0,
                "original_max_position_embeddings": 12,
                "beta_fast": 1.2,
                "beta_slow": 0.3,
                "mscale": 0.8,
                "mscale_all_dim": 0.5,
                "llama_4_scaling_beta": 0.5,
            },
        }
    ),
    "exaone4_full": Family(
        {**BASE, "model_type": "exaone4", "sliding_window": None, "layer_types": ["full_attention"] * 2}
    ),
}
"""The parity table: every family by its name.

A new one is a tiny config with every default that matters said aloud, the same architecture in modules, and
its weight names; its mutants come by themselves.
"""
