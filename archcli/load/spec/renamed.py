"""Hugging Face's names of sizes that YAML calls by other names: for hints on a key that is refused."""

from __future__ import annotations

OUR_WORD = {
    **dict.fromkeys(("hidden_size", "n_embd", "dim", "hidden_dim"), "d_model"),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer"), "n_layers"),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head"), "n_heads"),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), "n_kv_heads"),
    **dict.fromkeys(
        ("intermediate_size", "moe_intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"), "d_ff"
    ),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), "max_seq_len"),
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"), "eps"),
    **dict.fromkeys(("hidden_act", "activation_function", "hidden_activation"), "activation"),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), "n_experts"),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token"), "top_k"),
    "tie_word_embeddings": "tied",
    "sliding_window": "window",
    "rope_theta": "theta",
    "rope_scaling": "scaling",
    "attention_bias": "bias",
    "mlp_bias": "bias",
    "attn_logit_softcapping": "softcap",
    "final_logit_softcapping": "softcap",
}
"""Keys of config.json, and archcli's keys for them."""
