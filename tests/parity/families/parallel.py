"""Families whose attention and feed-forward network read the same stream.

GPT-J, GPT-NeoX, Phi-2, Falcon, Command R, StableLM.
"""

from __future__ import annotations

from archcli.load.huggingface.weights.names import LLAMA
from archcli.modules import (
    GLU,
    MLP,
    Embedding,
    GELUTanh,
    GroupedQueryAttention,
    Head,
    LayerNorm,
    MultiHeadAttention,
    MultiQueryAttention,
    NoPosition,
    Parallel,
    PreNorm,
    QKNorm,
    Rope,
    Swish,
)
from parity.family import (
    D_FF,
    D_MODEL,
    EPS,
    HEADS,
    KV_HEADS,
    LN,
    SIZES,
    THETA,
    WINDOW,
    Family,
    decoder,
    layers,
    rope,
)

TANH = MLP(d_ff=D_FF, activation=GELUTanh(), bias=True)
PLAIN, SWIGLU = MLP(d_ff=D_FF), GLU(d_ff=D_FF)
GAIN = LayerNorm(eps=EPS, bias=False)
FULL, HALF, PAIRS = (
    Rope(theta=THETA),
    Rope(theta=THETA, rotary_dim=4),
    Rope(theta=THETA, pairing="interleaved"),
)
QUARTER = rope(partial_rotary_factor=0.5)


NEOX_SIZES = {**SIZES, "model_type": "gpt_neox", "layer_norm_eps": EPS, "rope_parameters": QUARTER}
PHI_SIZES = {
    **SIZES,
    "model_type": "phi",
    "layer_norm_eps": EPS,
    "rope_parameters": QUARTER,
    "num_key_value_heads": HEADS,
}
FALCON_SIZES = {
    **SIZES,
    "model_type": "falcon",
    "layer_norm_epsilon": EPS,
    "ffn_hidden_size": D_FF,
    "rope_parameters": rope(),
    "tie_word_embeddings": True,
}
COHERE_SIZES = {
    **SIZES,
    "model_type": "cohere",
    "layer_norm_eps": EPS,
    "logit_scale": 0.3,
    "rope_parameters": rope(),
    "tie_word_embeddings": True,
}
STABLE_SIZES = {**SIZES, "model_type": "stablelm", "layer_norm_eps": EPS, "rope_parameters": QUARTER}


def mha(position=HALF, **options):
    return MultiHeadAttention(n_heads=HEADS, position=position, **options)


def gqa(position=FULL, **options):
    return GroupedQueryAttention(n_heads=HEADS, n_kv_heads=KV_HEADS, position=position, **options)


FAMILIES = {
    "gpt-j": Family(
        config={
            "model_type": "gptj",
            "vocab_size": SIZES["vocab_size"],
            "n_positions": 64,
            "n_embd": D_MODEL,
            "n_layer": 2,
            "n_head": HEADS,
            "n_inner": D_FF,
            "rotary_dim": 4,
            "layer_norm_epsilon": EPS,
        },
        spec=decoder(
            LN,
            layers(Parallel(norm=LN, attention=mha(Rope(rotary_dim=4, pairing="interleaved")), ffn=TANH)),
            head=Head(bias=True),
        ),
    ),
    "gpt-neox": Family(
        config={**NEOX_SIZES, "hidden_act": "gelu_fast"},
        spec=decoder(LN, layers(Parallel(n_norms=2, norm=LN, attention=mha(bias=True), ffn=TANH))),
    ),
    "gpt-neox-sequential": Family(
        config={**NEOX_SIZES, "use_parallel_residual": False, "hidden_act": "gelu"},
        spec=decoder(LN, layers(PreNorm(norm=LN, attention=mha(bias=True), ffn=MLP(d_ff=D_FF, bias=True)))),
    ),
    "phi-2": Family(
        config=PHI_SIZES,
        spec=decoder(LN, layers(Parallel(norm=LN, attention=mha(bias=True), ffn=TANH)), head=Head(bias=True)),
    ),
    "phi-qk-norm": Family(
        config={**PHI_SIZES, "qk_layernorm": True, "hidden_act": "quick_gelu"},
        spec=decoder(
            LN,
            layers(
                Parallel(
                    norm=LN,
                    attention=mha(bias=True, qk_norm=QKNorm(norm=LN)),
                    ffn=MLP(d_ff=D_FF, activation=Swish(beta=1.702), bias=True),
                )
            ),
            head=Head(bias=True),
        ),
    ),
    "falcon-7b": Family(
        config={**FALCON_SIZES, "multi_query": True},
        spec=decoder(
            LN,
            layers(Parallel(norm=LN, attention=MultiQueryAttention(n_heads=HEADS, position=FULL), ffn=PLAIN)),
            embedding=Embedding(tied=True),
        ),
    ),
    "falcon-40b": Family(
        config={**FALCON_SIZES, "new_decoder_architecture": True, "num_kv_heads": KV_HEADS},
        spec=decoder(
            LN,
            layers(Parallel(n_norms=2, norm=LN, attention=gqa(), ffn=PLAIN)),
            embedding=Embedding(tied=True),
        ),
    ),
    "falcon-11b": Family(
        config={
            **FALCON_SIZES,
            "new_decoder_architecture": True,
            "num_kv_heads": KV_HEADS,
            "num_ln_in_parallel_attn": 1,
        },
        spec=decoder(
            LN, layers(Parallel(norm=LN, attention=gqa(), ffn=PLAIN)), embedding=Embedding(tied=True)
        ),
    ),
    "command-r": Family(
        config=COHERE_SIZES,
        spec=decoder(
            GAIN,
            layers(Parallel(norm=GAIN, attention=gqa(PAIRS), ffn=SWIGLU)),
            embedding=Embedding(tied=True),
            head=Head(scale=0.3),
        ),
    ),
    "command-r-plus": Family(
        config={**COHERE_SIZES, "use_qk_norm": True},
        spec=decoder(
            GAIN,
            layers(
                Parallel(
                    norm=GAIN,
                    attention=gqa(PAIRS, qk_norm=QKNorm(per="head_distinct", norm=GAIN)),
                    ffn=SWIGLU,
                )
            ),
            embedding=Embedding(tied=True),
            head=Head(scale=0.3),
        ),
    ),
    "command-r7b": Family(
        config={
            **COHERE_SIZES,
            "model_type": "cohere2",
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        spec=decoder(
            GAIN,
            layers(
                Parallel(norm=GAIN, attention=gqa(PAIRS, window=WINDOW), ffn=SWIGLU),
                Parallel(norm=GAIN, attention=gqa(NoPosition()), ffn=SWIGLU),
            ),
            embedding=Embedding(tied=True),
            head=Head(scale=0.3),
        ),
        weights=LLAMA,
    ),
    "stablelm-1.6b": Family(
        config={**STABLE_SIZES, "use_qkv_bias": True},
        spec=decoder(LN, layers(PreNorm(norm=LN, attention=gqa(HALF, bias=("q", "k", "v")), ffn=SWIGLU))),
    ),
    "stablelm-12b": Family(
        config={**STABLE_SIZES, "use_parallel_residual": True, "qk_layernorm": True},
        spec=decoder(
            LN,
            layers(
                Parallel(
                    norm=LN, attention=gqa(HALF, qk_norm=QKNorm(per="head_distinct", norm=GAIN)), ffn=SWIGLU
                )
            ),
        ),
    ),
}
