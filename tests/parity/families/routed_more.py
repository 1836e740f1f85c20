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
GROUPED = {"n_group": 4, "topk_group": 2}
QUIET = {"model.layers.*.self_attn.kv_a_proj_with_mqa.*": 0.03, "model.layers.*.self_attn.q_a_proj.*": 0.03}

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
    "glm4-moe-lite": Family({**BASE, **RANKS, "model_type": "glm4_moe_lite"}, quiet=QUIET),
    "glm4-moe-lite-no-q-lora": Family(
        {
            **BASE,
            **RANKS,
            **GROUPED,
            "model_type": "glm4_moe_lite",
            "q_lora_rank": None,
            "rope_interleave": False,
            "attention_bias": True,
            "mlp_layer_types": ["sparse", "dense"],
        },
        quiet=QUIET,
    ),
    "axk1": Family({**BASE, **RANKS, **GROUPED, "model_type": "axk1"}, quiet=QUIET),
}
