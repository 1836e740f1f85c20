"""Tiny configs, and the names and shapes that a repository of such a model holds.

As the first ones on the hub name them.
"""

GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 2,
    "n_embd": 12,
    "n_head": 3,
    "n_positions": 8,
    "vocab_size": 7,
}


def gpt2_file(layers, width, positions, words):
    """As in the repository of GPT-2: without `transformer.`, with a mask in each layer."""
    layer = {
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "attn.bias": (1, 1, positions, positions),
        "attn.c_attn.weight": (width, 3 * width),
        "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width),
        "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "mlp.c_fc.weight": (width, 4 * width),
        "mlp.c_fc.bias": (4 * width,),
        "mlp.c_proj.weight": (4 * width, width),
        "mlp.c_proj.bias": (width,),
    }
    tables = {"wte.weight": (words, width), "wpe.weight": (positions, width)}
    blocks = {f"h.{i}.{name}": shape for i in range(layers) for name, shape in layer.items()}
    return {**tables, **blocks, "ln_f.weight": (width,), "ln_f.bias": (width,)}


GPT2_FILE = gpt2_file(2, 12, 8, 7)
BERT = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "vocab_size": 11,
    "hidden_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 5,
    "type_vocab_size": 2,
}

BERT_FILE = {
    "bert.embeddings.word_embeddings.weight": (11, 6),
    "bert.embeddings.position_embeddings.weight": (5, 6),
    "bert.embeddings.token_type_embeddings.weight": (2, 6),
    "bert.embeddings.position_ids": (1, 5),
    "bert.embeddings.LayerNorm.gamma": (6,),
    "bert.embeddings.LayerNorm.beta": (6,),
    **{f"bert.encoder.layer.0.attention.self.{name}.weight": (6, 6) for name in ("query", "key", "value")},
    **{f"bert.encoder.layer.0.attention.self.{name}.bias": (6,) for name in ("query", "key", "value")},
    "bert.encoder.layer.0.attention.output.dense.weight": (6, 6),
    "bert.encoder.layer.0.attention.output.dense.bias": (6,),
    "bert.encoder.layer.0.attention.output.LayerNorm.gamma": (6,),
    "bert.encoder.layer.0.attention.output.LayerNorm.beta": (6,),
    "bert.encoder.layer.0.intermediate.dense.weight": (10, 6),
    "bert.encoder.layer.0.intermediate.dense.bias": (10,),
    "bert.encoder.layer.0.output.dense.weight": (6, 10),
    "bert.encoder.layer.0.output.dense.bias": (6,),
    "bert.encoder.layer.0.output.LayerNorm.gamma": (6,),
    "bert.encoder.layer.0.output.LayerNorm.beta": (6,),
    "bert.pooler.dense.weight": (6, 6),
    "bert.pooler.dense.bias": (6,),
    "cls.predictions.bias": (11,),
    "cls.predictions.decoder.weight": (11, 6),
    "cls.predictions.transform.dense.weight": (6, 6),
    "cls.predictions.transform.dense.bias": (6,),
    "cls.predictions.transform.LayerNorm.gamma": (6,),
    "cls.predictions.transform.LayerNorm.beta": (6,),
    "cls.seq_relationship.weight": (2, 6),
    "cls.seq_relationship.bias": (2,),
}
"""As in the first repository of BERT: TensorFlow's words for norms, and the heads of its pretraining."""

V3 = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 16,
    "intermediate_size": 24,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "vocab_size": 9,
    "num_nextn_predict_layers": 1,
}

OSS = {
    "model_type": "gpt_oss",
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 9,
}

CHATGLM = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "num_layers": 2,
    "padded_vocab_size": 31,
    "hidden_size": 24,
    "ffn_hidden_size": 20,
    "kv_channels": 8,
    "num_attention_heads": 3,
    "multi_query_attention": True,
    "multi_query_group_num": 1,
    "add_qkv_bias": True,
}

CHATGLM_FILE = {
    "transformer.embedding.word_embeddings.weight": (31, 24),
    "transformer.rotary_pos_emb.inv_freq": (2,),
    **{
        f"transformer.encoder.layers.{i}.{name}": shape
        for i in range(2)
        for name, shape in {
            "input_layernorm.weight": (24,),
            "self_attention.query_key_value.weight": ((3 + 1 + 1) * 8, 24),
            "self_attention.query_key_value.bias": ((3 + 1 + 1) * 8,),
            "self_attention.dense.weight": (24, 24),
            "post_attention_layernorm.weight": (24,),
            "mlp.dense_h_to_4h.weight": (2 * 20, 24),
            "mlp.dense_4h_to_h.weight": (24, 20),
        }.items()
    },
    "transformer.encoder.final_layernorm.weight": (24,),
    "transformer.output_layer.weight": (31, 24),
}
"""As THUDM/chatglm3-6b and glm-4-9b name them."""
