"""Causal families of GPT's kind: a tiny config each, of which the importer makes the architecture."""

from parity.family import (
    D_FF,
    D_MODEL,
    EPS,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    SIZES,
    THETA,
    VOCAB,
    WINDOW,
    Family,
    rope,
)

FAIRSEQ = {"vocab_size": VOCAB, "max_position_embeddings": 64, "tie_word_embeddings": True}
# eps is 1e-5 whatever these configs say; a stream this quiet feels it.
QUIET = {f"*.{name}": 0.1 for name in ("embed_*.weight", "layers.*.self_attn.out_proj.*", "layers.*.fc2.*")}

BERT = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "intermediate_size": D_FF,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "layer_norm_eps": EPS,
    "pad_token_id": None,
}
GENERATION = {**BERT, "model_type": "bert-generation", "architectures": ["BertGenerationDecoder"]}
IMAGE = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
ETTIN = {
    **BERT,
    "model_type": "modernbert-decoder",
    "num_hidden_layers": 3,
    "norm_eps": EPS,
    "local_attention": 10,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 5,
    "rope_parameters": {"full_attention": rope(), "sliding_attention": rope(7 * THETA)},
}
TROCR = {
    **FAIRSEQ,
    "model_type": "trocr",
    "architectures": ["TrOCRForCausalLM"],
    "d_model": D_MODEL,
    "decoder_layers": 2,
    "decoder_attention_heads": HEADS,
    "decoder_ffn_dim": D_FF,
}
TROCR_QUIET = {
    f"model.decoder.layers.*.{name}.*": 0.3
    for name in ("self_attn_layer_norm", "final_layer_norm", "self_attn.out_proj", "fc2")
}
XLM = {
    "model_type": "xlm",
    "architectures": ["XLMWithLMHeadModel"],
    "n_words": VOCAB,
    "emb_dim": D_MODEL,
    "n_layers": 2,
    "n_heads": HEADS,
    "n_langs": 3,
    "max_position_embeddings": 64,
    "layer_norm_eps": EPS,
    "pad_token_id": 5,
}

FAMILIES = {
    "gpt-bigcode-mha": Family(
        {
            "model_type": "gpt_bigcode",
            "vocab_size": VOCAB,
            "n_positions": 64,
            "n_embd": D_MODEL,
            "n_layer": 2,
            "n_head": HEADS,
            "n_inner": D_FF,
            "layer_norm_epsilon": EPS,
            "multi_query": False,
            "scale_attn_weights": False,
        }
    ),
    "codegen": Family(
        {
            "model_type": "codegen",
            "vocab_size": VOCAB,
            "n_positions": 64,
            "n_embd": D_MODEL,
            "n_layer": 2,
            "n_head": HEADS,
            "rotary_dim": 6,
            "n_inner": D_FF,
            "layer_norm_epsilon": EPS,
        }
    ),
    "biogpt": Family(
        {
            **FAIRSEQ,
            "model_type": "biogpt",
            "hidden_size": D_MODEL,
            "num_hidden_layers": 2,
            "num_attention_heads": HEADS,
            "intermediate_size": D_FF,
        },
        quiet={name.replace("*.", "biogpt.", 1): factor for name, factor in QUIET.items()},
    ),
    "xglm": Family(
        {
            **FAIRSEQ,
            "model_type": "xglm",
            "d_model": D_MODEL,
            "num_layers": 2,
            "attention_heads": HEADS,
            "ffn_dim": D_FF,
        },
        inert={
            "norm: eps*10": "eps is 1e-5 whatever the config says, and the sinusoid keeps the stream at 1",
        },
    ),
    "gpt-neox-japanese": Family(
        {
            "model_type": "gpt_neox_japanese",
            "vocab_size": VOCAB,
            "hidden_size": D_MODEL,
            "num_hidden_layers": 3,
            "num_attention_heads": HEADS,
            "intermediate_multiple_size": 3,
            "max_position_embeddings": 64,
            "layer_norm_eps": EPS,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        }
    ),
    "bert-generation": Family(GENERATION, cls="BertGenerationDecoder"),
    "bert-generation-causal": Family({**GENERATION, "is_decoder": True}, cls="BertGenerationDecoder"),
    "git": Family(
        {**BERT, "model_type": "git", "vision_config": {**IMAGE, "image_size": 8, "patch_size": 4}}
    ),
    "modernbert-decoder": Family(ETTIN),
    "modernbert-decoder-biased": Family(
        {
            **ETTIN,
            "norm_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
            "decoder_bias": False,
            "classifier_bias": True,
            "tie_word_embeddings": False,
        }
    ),
    "moshi": Family(
        {
            **BERT,
            "model_type": "moshi",
            "num_key_value_heads": KV_HEADS,
            "ffn_dim": 2 * D_FF,
            "rms_norm_eps": EPS,
            "sliding_window": 64,
            "rope_parameters": rope(),
        },
        inert={
            f"groups.0.layer.attention: {change}": "the class masks nothing in one pass, and keeps the window"
            for change in ("window+1", "window-1", "no window")
        },
    ),
    "bert-generation-untied": Family(
        {**GENERATION, "is_decoder": True, "tie_word_embeddings": False}, cls="BertGenerationDecoder"
    ),
    "trocr": Family(TROCR, quiet=TROCR_QUIET),
    "trocr-sinusoids": Family(
        {
            **TROCR,
            "use_learned_position_embeddings": False,
            "layernorm_embedding": False,
            "scale_embedding": True,
            "pad_token_id": 5,
        },
        avoids=5,
        quiet=TROCR_QUIET,
    ),
    "xlm": Family(XLM, cls="XLMWithLMHeadModel", avoids=5),
    "xlm-causal": Family({**XLM, "causal": True, "n_langs": 1}, cls="XLMWithLMHeadModel", avoids=5),
    "beam": Family(
        {
            **SIZES,
            "model_type": "beam",
            "num_hidden_layers": 3,
            "head_dim": HEAD_DIM,
            "rms_norm_eps": EPS,
            "sliding_window": WINDOW,
            "moe_intermediate_size": 20,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "n_group": 4,
            "topk_group": 2,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "final_logit_softcapping": 3.0,
            "rope_parameters": {"sliding_attention": rope(), "full_attention": None},
        }
    ),
}
