"""Tiny configs of GPT-2 to Whisper, and what may be different about them."""

# what is tiny about a tiny config, in each family's own words
GPT2 = {"vocab_size": 61, "n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4}
NEOX = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 52,
    "max_position_embeddings": 40,
}
OPT = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "ffn_dim": 52,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
}
BLOOM = {"vocab_size": 61, "hidden_size": 30, "n_layer": 3, "n_head": 6}
MPT = {"vocab_size": 61, "d_model": 30, "n_heads": 6, "n_layers": 3, "max_seq_len": 40}
FALCON = {"vocab_size": 61, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6}
PHI = {**NEOX, "hidden_size": 48}
RANKS = {
    "kv_lora_rank": 14,
    "q_lora_rank": 18,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 6,
}
MOE = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
LATENT = {
    **NEOX,
    **RANKS,
    "num_key_value_heads": NEOX["num_attention_heads"],
}  # what the classes of V3 and MiniCPM3 can run
DEEPSEEK = {**LATENT, **MOE, "num_hidden_layers": 5}
GROUPED = {"n_group": 4, "topk_group": 2}
OSS = {
    **NEOX,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "sliding_window": 5,
}
LLAMA4 = {
    **NEOX,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "num_local_experts": 6,
    "intermediate_size_mlp": 44,
    "num_hidden_layers": 9,
}
BERT = {**NEOX, "type_vocab_size": 3}
T5 = {"vocab_size": 61, "d_model": 24, "d_kv": 10, "d_ff": 52, "num_layers": 3, "num_heads": 4}
HALVES = {
    "encoder_layers": 2,
    "encoder_ffn_dim": 52,
    "encoder_attention_heads": 4,
    "decoder_layers": 3,
    "decoder_ffn_dim": 44,
}
MARIAN = {
    "vocab_size": 61,
    "d_model": 24,
    "decoder_attention_heads": 6,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    **HALVES,
}
WHISPER = {**MARIAN, "num_mel_bins": 12, "max_source_positions": 9, "max_target_positions": 17}

VARIANTS = {
    "gpt2": {
        "narrow-ffn": {**GPT2, "n_inner": 50},
        "untied": {**GPT2, "tie_word_embeddings": False},
        "scaled-by-layer": {**GPT2, "scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
        "common-words": {
            "vocab_size": 61,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "max_position_embeddings": 9,
        },
    },
    "gptj": {
        "missing-ffn": {**GPT2, "rotary_dim": 4},
        "tied": {**GPT2, "rotary_dim": 6, "n_inner": 50, "tie_word_embeddings": True},
        "relu": {**GPT2, "rotary_dim": 2, "activation_function": "relu"},
    },
    "gpt_neox": {
        "sequential": {**NEOX, "use_parallel_residual": False},
        "no-bias": {**NEOX, "attention_bias": False, "rotary_pct": 1.0},
        "tied": {**NEOX, "tie_word_embeddings": True, "rotary_emb_base": 500.0, "rotary_pct": 0.5},
        "nope": {
            **NEOX,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.0},
        },
    },
    "opt": {
        "post-norm-350m": {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 10},
        "untied-narrow": {**OPT, "word_embed_proj_dim": 10, "tie_word_embeddings": False},
        "plain-norms": {**OPT, "layer_norm_elementwise_affine": False, "enable_bias": False},
        "no-final-norm": {**OPT, "_remove_final_layer_norm": True, "activation_function": "gelu"},
    },
    "bloom": {
        "old-words": {"vocab_size": 61, "n_embed": 24, "n_layer": 2, "num_attention_heads": 4},
        "untied": {**BLOOM, "tie_word_embeddings": False},
        "n_inner": {**BLOOM, "n_inner": 7},
    },
    "mpt": {
        "clipped": {**MPT, "attn_config": {"clip_qkv": 8.0, "softmax_scale": 0.3}},
        "untied": {**MPT, "tie_word_embeddings": False},
        "no-attn-config": {**MPT, "n_heads": 5},
    },
    "falcon": {
        "7b": {**FALCON, "num_kv_heads": 6},
        "40b": {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "multi_query": False},
        "11b": {
            **FALCON,
            "new_decoder_architecture": True,
            "num_kv_heads": 3,
            "num_ln_in_parallel_attn": 1,
            "ffn_hidden_size": 52,
        },
        "rw-1b": {**FALCON, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False},
        "mha": {**FALCON, "multi_query": False, "tie_word_embeddings": False},
        "new-without-kv-heads": {**FALCON, "new_decoder_architecture": True},
    },
    "phi": {
        "gqa": {**PHI, "num_key_value_heads": 2},
        "qk-norm": {**PHI, "qk_layernorm": True, "partial_rotary_factor": 0.34},
        "tied": {**PHI, "tie_word_embeddings": True, "hidden_act": "quick_gelu"},
    },
    "deepseek_v2": {
        "lite": {**DEEPSEEK, "q_lora_rank": None, "first_k_dense_replace": 1},
        "limited": {**DEEPSEEK, **GROUPED, "topk_method": "group_limited_greedy", "n_shared_experts": 3},
        "biased": {
            **DEEPSEEK,
            "attention_bias": True,
            "mlp_bias": True,
            "first_k_dense_replace": 2,
            "tie_word_embeddings": True,
        },
    },
    "deepseek_v3": {
        "no-q-lora": {**DEEPSEEK, **GROUPED, "q_lora_rank": None},
        "biased": {
            **DEEPSEEK,
            **GROUPED,
            "attention_bias": True,
            "first_k_dense_replace": 0,
            "n_shared_experts": 2,
        },
        "dense": {**DEEPSEEK, **GROUPED, "first_k_dense_replace": 9, "tie_word_embeddings": True},
    },
    "minicpm3": {
        "null-scales": {**LATENT, "scale_depth": None, "dim_model_base": None},
        "missing-v": {key: value for key, value in LATENT.items() if key != "v_head_dim"},
        "biased": {
            **LATENT,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": False,
            "q_lora_rank": None,
        },
    },
    "gpt_oss": {
        "stated-layers": {**OSS, "layer_types": ["full_attention", "full_attention", "sliding_attention"]},
        "no-bias": {**OSS, "attention_bias": False, "tie_word_embeddings": True},
        "plain-rope": {
            **OSS,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            "num_key_value_heads": 1,
        },
    },
    "llama4_text": {
        "every-other": {**LLAMA4, "interleave_moe_layer_step": 2, "use_qk_norm": False},
        "listed": {**LLAMA4, "moe_layers": [1, 2, 7], "no_rope_layers": [1, 0, 1, 1, 1, 0, 1, 1, 1]},
        "biased": {
            **LLAMA4,
            "attention_bias": True,
            "tie_word_embeddings": True,
            "no_rope_layer_interval": 3,
            "attn_temperature_tuning": False,
        },
        "dense": {**LLAMA4, "moe_layers": [], "num_key_value_heads": 4},
    },
    "bert": {
        "relu": {**BERT, "hidden_act": "relu"},
        "masked": {**BERT, "architectures": ["BertForMaskedLM"]},
        "pretraining": {**BERT, "architectures": ["BertForPreTraining"]},
        "next-sentence": {**BERT, "architectures": ["BertForNextSentencePrediction"]},
        "classifier": {
            **BERT,
            "architectures": ["BertForSequenceClassification"],
            "id2label": {str(i): str(i) for i in range(5)},
        },
        "tagger": {**BERT, "architectures": ["BertForTokenClassification"], "num_labels": 4},
        "answers": {**BERT, "architectures": ["BertForQuestionAnswering"]},
    },
    "t5": {
        "v1.0": {**T5, "num_decoder_layers": 2},
        "gated-tied": {**T5, "feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 12},
        "encoder": {**T5, "architectures": ["T5EncoderModel"]},
    },
    "marian": {
        "untied": {**MARIAN, "tie_word_embeddings": False},
        "paper": {**MARIAN, "activation_function": "relu", "scale_embedding": True},
        "two-tables": {**MARIAN, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47},
        "two-tables-untied": {
            **MARIAN,
            "share_encoder_decoder_embeddings": False,
            "tie_word_embeddings": False,
        },
    },
    "whisper": {
        "uneven": WHISPER,
        "untied": {**WHISPER, "tie_word_embeddings": False},
        "relu": {**WHISPER, "activation_function": "relu", "scale_embedding": True},
    },
}
