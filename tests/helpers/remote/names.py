"""Names and shapes that repositories with a class of their own hold, for the files of `alike.py`."""

N, KV, F, WORDS = 24, 2 * 4, 20, 88
LLAMA_LAYER = {
    "input_layernorm.weight": (N,),
    "self_attn.o_proj.weight": (N, N),
    "post_attention_layernorm.weight": (N,),
    "mlp.gate_proj.weight": (F, N),
    "mlp.up_proj.weight": (F, N),
    "mlp.down_proj.weight": (N, F),
}
SEPARATE = {
    "self_attn.q_proj.weight": (N, N),
    "self_attn.k_proj.weight": (KV, N),
    "self_attn.v_proj.weight": (KV, N),
}
ENDS = {
    "model.embed_tokens.weight": (WORDS, N),
    "model.norm.weight": (N,),
    "lm_head.weight": (WORDS, N),
}
GPT_ENDS = {
    "transformer.wte.weight": (WORDS, N),
    "transformer.ln_f.weight": (N,),
    "lm_head.weight": (WORDS, N),
}

# config of `ALIKE`: (beginning of the names of a layer, tensors of a layer, the others)
NAMES = {
    "internlm2": (
        "model.layers.",
        {
            "attention.wqkv.weight": (N + 2 * KV, N),
            "attention.wo.weight": (N, N),
            "attention_norm.weight": (N,),
            "ffn_norm.weight": (N,),
            "feed_forward.w1.weight": (F, N),
            "feed_forward.w2.weight": (N, F),
            "feed_forward.w3.weight": (F, N),
        },
        {
            "model.tok_embeddings.weight": (WORDS, N),
            "model.norm.weight": (N,),
            "output.weight": (WORDS, N),
        },
    ),
    "baichuan": ("model.layers.", {**LLAMA_LAYER, "self_attn.W_pack.weight": (3 * N, N)}, ENDS),
    "Yi": (
        "model.layers.",
        {
            **{name: shape for name, shape in LLAMA_LAYER.items() if "layernorm" not in name},
            **SEPARATE,
            "ln1.weight": (N,),
            "ln2.weight": (N,),
        },
        ENDS,
    ),
    "minicpm": ("model.layers.", {**LLAMA_LAYER, **SEPARATE}, ENDS),
    "nemotron-nas": ("model.layers.", {**LLAMA_LAYER, **SEPARATE}, ENDS),
    "qwen": (
        "transformer.h.",
        {
            "ln_1.weight": (N,),
            "attn.c_attn.weight": (3 * N, N),
            "attn.c_attn.bias": (3 * N,),
            "attn.c_proj.weight": (N, N),
            "ln_2.weight": (N,),
            "mlp.w1.weight": (F, N),
            "mlp.w2.weight": (F, N),
            "mlp.c_proj.weight": (N, F),
        },
        GPT_ENDS,
    ),
    "exaone": (
        "transformer.h.",
        {
            "ln_1.weight": (N,),
            "attn.attention.q_proj.weight": (N, N),
            "attn.attention.k_proj.weight": (KV, N),
            "attn.attention.v_proj.weight": (KV, N),
            "attn.attention.out_proj.weight": (N, N),
            "ln_2.weight": (N,),
            "mlp.c_fc_0.weight": (F, N),
            "mlp.c_fc_1.weight": (F, N),
            "mlp.c_proj.weight": (N, F),
        },
        GPT_ENDS,
    ),
    "phi-msft": (
        "transformer.h.",
        {
            "ln.weight": (N,),
            "ln.bias": (N,),
            "mixer.Wqkv.weight": (3 * N, N),
            "mixer.Wqkv.bias": (3 * N,),
            "mixer.out_proj.weight": (N, N),
            "mixer.out_proj.bias": (N,),
            "mlp.fc1.weight": (4 * N, N),
            "mlp.fc1.bias": (4 * N,),
            "mlp.fc2.weight": (N, 4 * N),
            "mlp.fc2.bias": (N,),
        },
        {
            "transformer.embd.wte.weight": (128, N),
            "lm_head.ln.weight": (N,),
            "lm_head.ln.bias": (N,),
            "lm_head.linear.weight": (128, N),
            "lm_head.linear.bias": (128,),
        },
    ),
    "openelm": (
        "transformer.layers.",
        {
            "attn_norm.weight": (N,),
            "attn.qkv_proj.weight": (N + 2 * KV, N),
            "attn.q_norm.weight": (4,),
            "attn.k_norm.weight": (4,),
            "attn.out_proj.weight": (N, N),
            "ffn_norm.weight": (N,),
            "ffn.proj_1.weight": (2 * F, N),
            "ffn.proj_2.weight": (N, F),
        },
        {
            "transformer.token_embeddings.weight": (WORDS, N),
            "transformer.norm.weight": (N,),
            "lm_head.weight": (WORDS, N),
        },
    ),
    "mamba_ssm": (
        "backbone.layers.",
        {
            "norm.weight": (32,),
            "mixer.in_proj.weight": (2 * 64 + 2 * 2 * 128 + 4, 32),
            "mixer.conv1d.weight": (64 + 2 * 2 * 128, 1, 4),
            "mixer.conv1d.bias": (64 + 2 * 2 * 128,),
            "mixer.dt_bias": (4,),
            "mixer.A_log": (4,),
            "mixer.D": (4,),
            "mixer.norm.weight": (64,),
            "mixer.out_proj.weight": (32, 64),
        },
        {
            "backbone.embedding.weight": (88, 32),
            "backbone.norm_f.weight": (32,),
            "lm_head.weight": (88, 32),
        },
    ),
}
