"""Decoders of Mamba-1 mixers, and Jamba, which has attention and experts beside them."""

from parity.family import EPS, SIZES, Family

MAMBA = {
    **{key: SIZES[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "pad_token_id")},
    "tie_word_embeddings": False,
    "layer_norm_epsilon": EPS,
    "state_size": 5,
    "conv_kernel": 3,
}

FAMILIES = {
    "mamba": Family({**MAMBA, "model_type": "mamba", "expand": 3, "hidden_act": "gelu"}),
    "mamba_biased": Family(
        {
            **MAMBA,
            "model_type": "mamba",
            "intermediate_size": 40,
            "time_step_rank": 7,
            "conv_kernel": 4,
            "use_bias": True,
            "use_conv_bias": False,
            "tie_word_embeddings": True,
        }
    ),
    "falcon_mamba": Family({**MAMBA, "model_type": "falcon_mamba", "mixer_rms_eps": 0.02}),
}
