"""Mamba layers that share blocks of attention: Zamba, and Zamba 2 with adapters of each use."""

from parity.family import EPS, HEADS, KV_HEADS, SIZES, Family, rope

ZAMBA = {
    **SIZES,
    "model_type": "zamba",
    "num_hidden_layers": 3,
    "layers_block_type": ["hybrid", "linear_attention", "hybrid"],
    "rms_norm_eps": EPS,
    "num_key_value_heads": KV_HEADS,
    "n_mamba_heads": 4,
    "mamba_d_state": 5,
    "mamba_d_conv": 3,
    "tie_word_embeddings": True,
}
ZAMBA2 = {
    **SIZES,
    "model_type": "zamba2",
    "num_hidden_layers": 6,
    "layers_block_type": ["linear_attention", "hybrid", "hybrid", "linear_attention", "hybrid", "hybrid"],
    "rms_norm_eps": EPS,
    "num_key_value_heads": HEADS,
    "n_mamba_heads": 8,
    "mamba_ngroups": 2,
    "mamba_d_state": 10,
    "mamba_d_conv": 3,
    "mamba_expand": 3,
    "chunk_size": 7,
    "num_mem_blocks": 2,
    "adapter_rank": 5,
    "tie_word_embeddings": True,
}
# a state of six layers adds up errors of rounding, of their class and of ours, to nearly what may differ
QUIET = {
    f"model.layers.*.{name}.weight": 0.5
    for name in (
        *("mamba.in_proj", "mamba_decoder.mamba.in_proj"),
        *("shared_transf.feed_forward.down_proj", "shared_transformer.feed_forward.down_proj"),
    )
}

FAMILIES = {
    "zamba": Family(ZAMBA, quiet=QUIET),
    "zamba-regular": Family(
        {
            **{key: value for key, value in ZAMBA.items() if key != "layers_block_type"},
            "num_hidden_layers": 6,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "n_mamba_heads": 1,
            "mamba_dt_rank": 7,
            "attention_head_dim": 10,
            "mamba_proj_bias": True,
            "mamba_conv_bias": False,
            "hidden_mamba_act": "gelu",
            "hidden_act": "silu",
        },
        quiet=QUIET,
    ),
    "zamba2": Family(ZAMBA2, quiet=QUIET),
    "zamba2-adapted": Family(
        {
            **ZAMBA2,
            "use_shared_attention_adapter": True,
            "use_mem_rope": True,
            "rope_parameters": rope(),
            "add_bias_linear": True,
            "time_step_min": 0.2,
            "mamba_ngroups": 1,
        },
        quiet=QUIET,
    ),
    "zamba2-one-block": Family({**ZAMBA2, "num_mem_blocks": 1, "num_key_value_heads": KV_HEADS}, quiet=QUIET),
}
