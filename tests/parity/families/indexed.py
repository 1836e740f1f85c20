"""Families whose layers have an indexer: with many index heads, as of few the scores tie at 0."""

from parity.families.latent import BASE as LATENT
from parity.families.latent import QUIET, YARN
from parity.family import EPS, SIZES, WINDOW, Family, rope

# k's norm has an eps of 1e-6
SMALL_KEYS = {**QUIET, "model.layers.*.self_attn.indexer.wk.weight": 0.002}
SMALL_INDEX_KEYS = {name: share for name, share in SMALL_KEYS.items() if name not in QUIET}
BASE = {**LATENT, "n_shared_experts": 1, "index_n_heads": 16, "index_head_dim": 12, "index_topk": 5}
GROUPED = {"n_group": 4, "topk_group": 2}
STRETCHED = rope(rope_type="yarn", original_max_position_embeddings=16, **YARN)

GATED = {**BASE, "model_type": "axk2", "gated_norm_rank": 7}

DOGE = {
    **SIZES,
    "model_type": "doge",
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
    "keep_window_size": 5,
}

LAYERS = [f"groups.{i}.layer.attention" for i in range(2)]
OF_INDEX = ("top_k+1", "top_k-1", "pairing=interleaved")
OF_NORM = ("eps*10", "offset=1", "no bias", "RMSNorm")
CHANGES = (": no index", *(f".index: {it}" for it in OF_INDEX), *(f".index.norm: {it}" for it in OF_NORM))
EVERY_KEY = {
    f"{layer}{change}": "every key is chosen, whatever the indexer says"
    for layer in LAYERS
    for change in CHANGES
}
EVERY_GATE = {
    f"groups.0.layer.attention.value_gate: top_k{step}": "every key is chosen" for step in ("+1", "-1")
}
AS_ATTENTION = {f"{layer}.index: pairing=interleaved": "as the attention pairs" for layer in LAYERS}

NARROW = {
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "q_lora_rank": 16,
    "kv_lora_rank": 10,
    "head_dim": 18,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 6,
    "v_head_dim": 5,
}
"""Layers with a window of DOTS, with fewer heads and other ranks."""

DOTS = {
    **BASE,
    "model_type": "dots3_note_text",
    "num_hidden_layers": 3,
    "layer_types": ["indexed_attention", "sliding_attention", "indexed_attention"],
    "sliding_window": WINDOW,
    "head_dim": 16,
    "per_layer_config": {"1": NARROW},
    "shared_experts_intermediate_size": 12,
    "n_shared_experts": 2,
    "rope_parameters": {
        "indexed_attention": rope(),
        "sliding_attention": rope(50.0),
    },
    **GROUPED,
}

HY4 = {
    **{key: value for key, value in BASE.items() if key != "first_k_dense_replace"},
    "model_type": "hy_v4",
    "num_hidden_layers": 4,
    "hc_mult": 3,
    "hc_magnitude": 1.3,
    "hc_eps": 0.1,
    "swiglu_limit": 0.5,
}

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
TURNS = {"factor": 4.0, "beta_fast": 1.2, "beta_slow": 0.2}
V4 = {
    **{key: value for key, value in SIZES.items() if key != "intermediate_size"},
    "model_type": "deepseek_v4",
    "rms_norm_eps": EPS,
    "num_hidden_layers": 5,
    "layer_types": ["sliding_attention", SPARSE, HEAVY, SPARSE, HEAVY],
    "compress_rates": {SPARSE: 3, HEAVY: 7},
    "sliding_window": WINDOW,
    "num_key_value_heads": 1,
    "head_dim": 12,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 18,
    "o_groups": 2,
    "o_lora_rank": 9,
    "index_n_heads": 16,
    "index_head_dim": 10,
    "index_topk": 3,
    "moe_intermediate_size": 20,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "num_hash_layers": 2,
    "routed_scaling_factor": 1.7,
    "swiglu_limit": 0.5,
    "hc_mult": 3,
    "hc_sinkhorn_iters": 2,
    "hc_eps": 0.1,
    "rope_theta": 50.0,
    "compress_rope_theta": 100.0,
    "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 16, **TURNS},
}

POOLED = {
    **{key: value for key, value in BASE.items() if key not in {"first_k_dense_replace", "rope_parameters"}},
    "num_hidden_layers": 5,
    "layer_types": ["linear_attention", "indexed_attention", "indexed_attention"] + ["linear_attention"] * 2,
    "indexer_types": ["full", "full", "shared", "full", "full"],
    "mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse"],
    "qk_rope_head_dim": 0,
    "index_topk": 6,
    "index_kpool": 3,
    "linear_head_dim": 6,
    "linear_num_heads": 3,
    "linear_conv_kernel_dim": 3,
    "swiglu_limit": 0.5,
    "hc_mult": 3,
    "hc_sinkhorn_iters": 2,
    "hc_eps": 0.1,
}


def glm5_next(text, **options):
    """GLM-5.3's wrapper around a text part, beside a tower of one layer."""
    tower = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": 32,
        "projection_intermediate_size": 16,
    }
    config = {"model_type": "glm5_next", "text_config": text, "vision_config": tower}
    return Family(config, cls="AutoModelForImageTextToText", **options)


def pairs_as_attention(*groups):
    """What changes nothing in the layers of these groups, as the attention pairs halves."""
    return {f"groups.{i}.layer.attention.index: pairing=half": "as the attention pairs" for i in groups}


MEANS = {
    "model_type": "qwen4_exp_text",
    **{key: value for key, value in SIZES.items() if key != "intermediate_size"},
    "rms_norm_eps": EPS,
    "num_hidden_layers": 5,
    "layer_types": ["linear_attention"] * 2 + ["indexed_attention", "linear_attention", "full_attention"],
    "head_dim": 12,
    "rope_parameters": rope(50.0, partial_rotary_factor=0.5),
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 3,
    "output_gate_type": "sigmoid",
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 12,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "hc_count": 3,
    "hc_lowrank": 7,
    "ple_layer_ids": [4, 2],
    "ple_embed_dim": 64,
    "ple_conv_kernel_size": 3,
    "ngram_size": 3,
    "heads_per_ngram": 2,
    "ngram_vocab_size_base": 90,
    "make_ngram_vocab_size_divisible_by": 16,
    "split_ngram_parts": 3,
    "eos_token_id": [3, 5],
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 10,
    "indexer_budget": 6,
    "indexer_compress_ratio": 3,
}

FAMILIES = {
    "qwen4-exp": Family(MEANS, inert=pairs_as_attention(2, 4)),
    "qwen4-exp-plain": Family(
        {
            **{key: value for key, value in MEANS.items() if "ple" not in key and key != "layer_types"},
            "num_hidden_layers": 4,
            "output_gate_type": None,
            "attention_bias": True,
            "norm_topk_prob": False,
            "rope_parameters": rope(),
            "indexer_head_dim": 14,
            "tie_word_embeddings": True,
        },
        inert=pairs_as_attention(1),
    ),
    "glm5-next": glm5_next(POOLED, quiet=SMALL_INDEX_KEYS),
    "deepseek-v4": Family(V4),
    "deepseek-v4-plain": Family(
        {
            **{key: value for key, value in V4.items() if key not in {"layer_types", "rope_scaling"}},
            "num_hidden_layers": 3,
            "compress_rates": {SPARSE: 4, HEAVY: 5},
            "index_topk": 64,
            "num_hash_layers": 0,
            "scoring_func": "sigmoid",
            "hidden_act": "gelu",
            "hc_eps": 0.0,
            "hc_sinkhorn_iters": 1,
        }
    ),
    "deepseek-v3.2": Family(
        {**BASE, "model_type": "deepseek_v32", **GROUPED, "rope_parameters": STRETCHED}, quiet=SMALL_KEYS
    ),
    "deepseek-v3.2-few-heads": Family(
        {
            **BASE,
            "model_type": "deepseek_v32",
            **GROUPED,
            "index_n_heads": 2,
            "index_topk": 64,
            "attention_bias": True,
            "mlp_layer_types": ["sparse", "dense"],
        },
        quiet=QUIET,
        inert=EVERY_KEY,
    ),
    "axk2": Family({**GATED, "rope_parameters": STRETCHED}, quiet=SMALL_KEYS),
    "axk2-grouped": Family(
        {**GATED, **GROUPED, "attention_bias": True, "mlp_layer_types": ["sparse", "sparse"]},
        quiet=SMALL_KEYS,
    ),
    "doge": Family({**DOGE, "attention_bias": True, "mlp_bias": True}, distinct=True),
    "doge-all-keys": Family({**DOGE, "keep_window_size": 64, "num_key_value_heads": None}, inert=EVERY_GATE),
    "glm-moe-dsa": Family(
        {**BASE, "model_type": "glm_moe_dsa", **GROUPED}, quiet=SMALL_KEYS, inert=AS_ATTENTION
    ),
    "glm-moe-dsa-shared": Family(
        {
            **BASE,
            "model_type": "glm_moe_dsa",
            "num_hidden_layers": 5,
            "indexer_types": ["full", "full", "shared", "shared", "full"],
        },
        quiet=SMALL_KEYS,
        inert={
            f"groups.{i}.layer.attention.index: pairing=interleaved": "as the attention pairs" for i in (0, 3)
        },
    ),
    "hy4": Family(
        {**HY4, "rope_parameters": STRETCHED},
        quiet=QUIET,
        inert={
            "groups.0.layer.attention.index: pairing=half": "as the attention pairs",
            "groups.2.layer.attention.position: rotates=first": "the layer reads another's index",
        },
    ),
    "hy4-all-full": Family(
        {
            **HY4,
            "num_hidden_layers": 2,
            "indexer_types": ["full", "full"],
            "mlp_layer_types": ["sparse", "dense"],
            "attention_bias": True,
            "norm_topk_prob": False,
            "hidden_act": "gelu",
            "hc_eps": 0.0,
            **GROUPED,
        },
        quiet=QUIET,
        inert={f"groups.{i}.layer.attention.index: pairing=half": "as the attention pairs" for i in (0, 1)},
    ),
    "dots3-note": Family(
        DOTS,
        quiet=SMALL_INDEX_KEYS,
        inert={
            f"groups.{i}.layer.attention.index: pairing=interleaved": "as the attention pairs" for i in (0, 2)
        },
    ),
    "dots3-note-full": Family(
        {
            **DOTS,
            "use_dsa": False,
            "rope_parameters": rope(),
            "attention_bias": True,
            "norm_topk_prob": False,
            "mlp_layer_types": ["sparse", "dense", "sparse"],
        }
    ),
}
