"""Families with ways of their own.

gpt-oss (sinks, clipped experts), Llama 4 (chunks, weighted inputs), OPT-350m, Falcon with ALiBi.
"""

from __future__ import annotations

from archcli.modules import (
    GLU,
    MLP,
    ALiBi,
    Embedding,
    GroupedQueryAttention,
    LengthTemperature,
    MixtureOfExperts,
    MultiHeadAttention,
    NoPosition,
    PostNorm,
    PreNorm,
    QKNorm,
    RMSNorm,
    Rope,
    Router,
    Swish,
    YarnScaling,
)
from parity.families.gpt import OFFSET, OPT_LAYER, OPT_LN, OPT_SIZES
from parity.family import (
    D_FF,
    EPS,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LN,
    RMS,
    SIZES,
    THETA,
    WINDOW,
    Family,
    decoder,
    layers,
    rope,
)

E, WIDTH = 6, 20


def gqa(**options):
    return GroupedQueryAttention(n_heads=HEADS, n_kv_heads=KV_HEADS, head_dim=HEAD_DIM, **options)


# gpt-oss

YARN = {"factor": 4.0, "beta_fast": 1.2, "beta_slow": 0.2, "truncate": False}
STRETCHED = Rope(theta=THETA, scaling=YarnScaling(original_max_seq_len=16, **YARN))
CLIPPED = MixtureOfExperts(
    n_experts=E,
    top_k=2,
    expert=GLU(d_ff=WIDTH, activation=Swish(beta=1.3), bias=True, limit=0.8, up_offset=1),
    router=Router(scores="softmax_after", bias=True),
)
GPT_OSS_CONFIG = {
    **SIZES,
    "model_type": "gpt_oss",
    "rms_norm_eps": EPS,
    "head_dim": HEAD_DIM,
    "intermediate_size": WIDTH,
    "num_local_experts": E,
    "num_experts_per_tok": 2,
    "sliding_window": WINDOW,
    "swiglu_alpha": 1.3,
    "swiglu_limit": 0.8,
    "rope_parameters": rope(rope_type="yarn", original_max_position_embeddings=16, **YARN),
}

# Llama 4

LLAMA4_CONFIG = {
    **SIZES,
    "model_type": "llama4_text",
    "rms_norm_eps": EPS,
    "head_dim": HEAD_DIM,
    "intermediate_size": WIDTH,
    "intermediate_size_mlp": D_FF,
    "num_local_experts": E,
    "num_hidden_layers": 4,
    "interleave_moe_layer_step": 2,
    "no_rope_layers": [1, 0, 1, 1],
    "attention_chunk_size": WINDOW,
    "floor_scale": 4,
    "attn_scale": 0.5,
    "rope_parameters": rope(),
}
TURNED = gqa(
    position=Rope(theta=THETA, pairing="interleaved"),
    chunk=WINDOW,
    qk_norm=QKNorm(when="after_rope", norm=RMSNorm(eps=EPS, weight=False)),
)
TEMPERED = gqa(position=NoPosition(), temperature=LengthTemperature(scale=0.5, floor_scale=4))
DENSE, ROUTED = (
    GLU(d_ff=D_FF),
    MixtureOfExperts(
        n_experts=E,
        top_k=1,
        expert=GLU(d_ff=WIDTH),
        router=Router(scores="sigmoid", normalized=False),
        shared=GLU(d_ff=WIDTH),
        weigh="input",
    ),
)

FAMILIES = {
    "gpt-oss": Family(
        config=GPT_OSS_CONFIG,
        spec=decoder(
            RMS,
            layers(
                *(
                    PreNorm(
                        norm=RMS,
                        attention=gqa(bias=True, position=STRETCHED, sinks=True, window=window),
                        ffn=CLIPPED,
                    )
                    for window in (WINDOW, None)
                )
            ),
        ),
    ),
    "llama-4": Family(
        config=LLAMA4_CONFIG,
        spec=decoder(
            RMS,
            *(
                layers(PreNorm(norm=RMS, attention=attention, ffn=ffn), n_layers=1)
                for attention, ffn in ((TURNED, DENSE), (TEMPERED, ROUTED), (TURNED, DENSE), (TURNED, ROUTED))
            ),
        ),
    ),
    "opt-350m": Family(
        config={**OPT_SIZES, "do_layer_norm_before": False, "word_embed_proj_dim": 20},
        spec=decoder(
            OPT_LN,
            layers(PostNorm(**OPT_LAYER)),
            embedding=OFFSET.replace(width=20),
            final_norm=False,
        ),
        quiet={
            f"model.decoder.layers.*.{name}": 0.3
            for name in ("self_attn_layer_norm.*", "final_layer_norm.*", "self_attn.out_proj.*", "fc2.*")
        },
    ),
    "falcon-rw": Family(
        config={
            **SIZES,
            "model_type": "falcon",
            # their slopes are rounded to bfloat16, which for 8 heads changes nothing
            "num_attention_heads": 8,
            "layer_norm_epsilon": EPS,
            "ffn_hidden_size": D_FF,
            "alibi": True,
            "bias": True,
            "multi_query": False,
            "parallel_attn": False,
            "tie_word_embeddings": True,
        },
        spec=decoder(
            LN,
            layers(
                PreNorm(
                    norm=LN,
                    attention=MultiHeadAttention(n_heads=8, bias=True, position=ALiBi(scaled=True)),
                    ffn=MLP(d_ff=D_FF, bias=True),
                )
            ),
            embedding=Embedding(tied=True),
        ),
        attention="sdpa",  # the eager form of transformers 5.23 adds ALiBi twice, once with the mask
    ),
}
