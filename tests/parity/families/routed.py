"""Decoders with mixtures of experts: a tiny config each, of which the importer makes the architecture."""

from typing import Any

from parity.family import EPS, HEAD_DIM, SIZES, WINDOW, Family, rope

E, K, WIDTH = 6, 2, 20
BASE: dict[str, Any] = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}
ROUTED: dict[str, Any] = {**BASE, "num_experts": E, "num_experts_per_tok": K}
LOCAL: dict[str, Any] = {**BASE, "num_local_experts": E, "num_experts_per_tok": K}
ERNIE: dict[str, Any] = {
    **BASE,
    "model_type": "ernie4_5_moe",
    "moe_k": K,
    "moe_num_experts": E,
    "moe_intermediate_size": WIDTH,
    "num_hidden_layers": 3,
}

GRANITE: dict[str, Any] = {
    **LOCAL,
    "attention_multiplier": 0.2,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.6,
    "logits_scaling": 4.0,
}
LONGROPE: dict[str, Any] = rope(
    rope_type="longrope",
    short_factor=[1.0, 1.5, 2.0, 3.0],
    long_factor=[2.0, 3.0, 4.0, 5.0],
    short_mscale=1.2,
    long_mscale=1.2,
    original_max_position_embeddings=64,
)

NESTED: dict[str, Any] = {
    **BASE,
    "num_hidden_layers": 3,
    "head_dim": HEAD_DIM,
    "moe_intermediate_size": WIDTH,
    "num_experts_per_tok": K,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "mlp_layer_types": ["sparse", "sparse", "dense"],
    "sliding_window": WINDOW,
    "rope_parameters": {"full_attention": rope(), "sliding_attention": rope(9.0)},
}
DBRX: dict[str, Any] = {
    "model_type": "dbrx",
    "vocab_size": SIZES["vocab_size"],
    "d_model": SIZES["hidden_size"],
    "n_heads": SIZES["num_attention_heads"],
    "n_layers": 2,
    "max_seq_len": 64,
    "pad_token_id": None,
    "rope_parameters": rope(),
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.3, "rope_theta": 100.0},
    "ffn_config": {"ffn_hidden_size": WIDTH, "moe_num_experts": E, "moe_top_k": K},
}

QUIET = {
    f"model.{name}": 0.01
    for name in (
        "embed_tokens.weight",
        "layers.*.self_attention.experts.output_linear.weight",
        "layers.*.self_attention.experts.bias",
        "layers.*.mlp.output_linear.weight",
        "layers.*.mlp.bias",
    )
}
"""A stream so quiet that the eps of JetMoE's layers is felt, which no key states."""

BELOW = "no sequence here is longer than the original context"

FAMILIES: dict[str, Family] = {
    "olmoe-1b": Family({**ROUTED, "model_type": "olmoe", "norm_topk_prob": False}),
    "olmoe-biased": Family({**ROUTED, "model_type": "olmoe", "norm_topk_prob": True, "attention_bias": True}),
    "olmoe-clipped": Family({**ROUTED, "model_type": "olmoe", "norm_topk_prob": False, "clip_qkv": 0.7}),
    "flex-olmo": Family({**ROUTED, "model_type": "flex_olmo"}),
    "minimax-m2": Family({**LOCAL, "model_type": "minimax_m2", "head_dim": HEAD_DIM, "rotary_dim": 8}),
    "ernie45-moe": Family(ERNIE),
    "ernie45-moe-biased": Family(
        {
            **ERNIE,
            "use_bias": True,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 0,
            "moe_layer_interval": 2,
        }
    ),
    "hunyuan-moe": Family(
        {
            **BASE,
            "model_type": "hunyuan_v1_moe",
            "head_dim": HEAD_DIM,
            "num_experts": E,
            "moe_topk": [K, K + 1],
        }
    ),
    "hunyuan-moe-alpha": Family(
        {
            **BASE,
            "model_type": "hunyuan_v1_moe",
            "head_dim": HEAD_DIM,
            "num_experts": E,
            "moe_topk": K,
            "attention_bias": True,
            "rope_parameters": rope(rope_type="dynamic", factor=1.0, alpha=9.0),
        }
    ),
    "aria-text": Family({**BASE, "model_type": "aria_text", "moe_num_experts": E, "moe_topk": K}),
    "aria-text-biased": Family(
        {
            **BASE,
            "model_type": "aria_text",
            "moe_num_experts": E,
            "moe_topk": K,
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
        }
    ),
    "granitemoe-biased": Family({**GRANITE, "model_type": "granitemoe", "attention_bias": True}),
    "granitemoeshared": Family({**GRANITE, "model_type": "granitemoeshared", "shared_intermediate_size": 28}),
    "granitemoe-swa": Family(
        {
            **GRANITE,
            "model_type": "granitemoe_swa",
            "num_hidden_layers": 4,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
            "layer_rope_theta": [100.0, 100.0, 0, 9.0],
            "sliding_window": WINDOW,
            "shared_intermediate_size": 28,
        }
    ),
    "phimoe": Family({**LOCAL, "model_type": "phimoe", "router_jitter_noise": 0.1}),
    "phimoe-biased": Family(
        {
            **LOCAL,
            "model_type": "phimoe",
            "router_jitter_noise": 0.1,
            "attention_bias": True,
            "lm_head_bias": True,
            "sliding_window": WINDOW,
            "rope_parameters": LONGROPE,
            "original_max_position_embeddings": 64,
        },
        inert={
            "groups.0.layer.attention.position.scaling: original_max_seq_len*2": BELOW,
            "groups.0.layer.attention.position.scaling: long_factor*1.1": BELOW,
            "groups.0.layer.attention.position.scaling: factor*2": "the mscales state what it would give",
        },
    ),
    "mellum": Family({**NESTED, "model_type": "mellum", "num_local_experts": E, "norm_topk_prob": False}),
    "dbrx": Family(DBRX),
    "dbrx-unnormalized": Family(
        {
            **DBRX,
            "ffn_config": {
                **DBRX["ffn_config"],
                "moe_normalize_expert_weights": None,
                "ffn_act_fn": {"name": "gelu"},
            },
        }
    ),
    "jetmoe": Family(
        {
            **{key: value for key, value in LOCAL.items() if key != "num_attention_heads"},
            "model_type": "jetmoe",
            "kv_channels": HEAD_DIM,
            "activation_function": "gelu",
        },
        quiet=QUIET,
    ),
}
