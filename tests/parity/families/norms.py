"""Families whose norms are the point.

Gemma's offset and sandwich, OLMo without weights and OLMo 2 after the sublayer, Nemotron.
"""

from __future__ import annotations

from archcli.load.huggingface.weights.names import GATE_UP, LLAMA, NORM_AFTER
from archcli.modules import (
    GLU,
    MLP,
    Embedding,
    GELUTanh,
    GroupedQueryAttention,
    Head,
    LayerNorm,
    LinearScaling,
    MultiQueryAttention,
    NoPosition,
    PreNorm,
    QKNorm,
    ResidualPostNorm,
    RMSNorm,
    Rope,
    Sandwich,
    SquaredReLU,
)
from parity.family import (
    D_FF,
    EPS,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    RMS,
    SIZES,
    THETA,
    WINDOW,
    Family,
    decoder,
    layers,
    rope,
)

OFFSET, BARE = RMSNorm(eps=EPS, offset=1), LayerNorm(weight=False, bias=False)
NEMOTRON = LayerNorm(eps=EPS, offset=1)
GEGLU, SWIGLU = GLU(d_ff=D_FF, activation=GELUTanh()), GLU(d_ff=D_FF)
ROPE = Rope(theta=THETA)
GEMMA_SIZES = {
    **SIZES,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": EPS,
    "rope_parameters": rope(),
    "tie_word_embeddings": True,
}
OLMO_SIZES = {**SIZES, "rope_parameters": rope()}
SCALED = Embedding(tied=True, scale="sqrt_d_model")
LOCAL = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}


def gqa(position=ROPE, **options):
    return GroupedQueryAttention(n_heads=HEADS, n_kv_heads=KV_HEADS, position=position, **options)


def gemma2(**options):
    return Sandwich(
        norm=OFFSET, attention=gqa(head_dim=HEAD_DIM, scale=10**-0.5, softcap=1.5, **options), ffn=GEGLU
    )


def gemma3(position, **options):
    attention = gqa(position, head_dim=HEAD_DIM, scale=10**-0.5, qk_norm=QKNorm(norm=OFFSET), **options)
    return Sandwich(norm=OFFSET, attention=attention, ffn=GEGLU)


def exaone(position, **options):
    return ResidualPostNorm(
        norm=RMS, attention=gqa(position, qk_norm=QKNorm(norm=RMS), **options), ffn=SWIGLU
    )


def olmo(position=ROPE, **options):
    return ResidualPostNorm(
        norm=RMS, attention=gqa(position, qk_norm=QKNorm(per="full", norm=RMS), **options), ffn=SWIGLU
    )


FAMILIES = {
    "gemma": Family(
        config={**GEMMA_SIZES, "model_type": "gemma", "num_key_value_heads": 1},
        spec=decoder(
            OFFSET,
            layers(
                PreNorm(
                    norm=OFFSET,
                    attention=MultiQueryAttention(n_heads=HEADS, head_dim=HEAD_DIM, position=ROPE),
                    ffn=GEGLU,
                )
            ),
            embedding=SCALED,
        ),
    ),
    "gemma2": Family(
        config={
            **GEMMA_SIZES,
            **LOCAL,
            "model_type": "gemma2",
            "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": 1.5,
            "final_logit_softcapping": 4.0,
        },
        spec=decoder(
            OFFSET, layers(gemma2(window=WINDOW), gemma2()), embedding=SCALED, head=Head(softcap=4.0)
        ),
    ),
    "gemma3": Family(
        config={
            **GEMMA_SIZES,
            **LOCAL,
            "model_type": "gemma3_text",
            "query_pre_attn_scalar": 10,
            "rope_parameters": {
                "full_attention": rope(500.0, rope_type="linear", factor=2.0),
                "sliding_attention": rope(),
            },
        },
        spec=decoder(
            OFFSET,
            layers(gemma3(ROPE, window=WINDOW), gemma3(Rope(theta=500.0, scaling=LinearScaling(factor=2.0)))),
            embedding=SCALED,
        ),
    ),
    "olmo": Family(
        config={**OLMO_SIZES, "model_type": "olmo", "clip_qkv": 1.0},
        spec=decoder(BARE, layers(PreNorm(norm=BARE, attention=gqa(clip=1.0), ffn=SWIGLU))),
        # eps is 1e-5 whatever the config says; a stream this quiet feels it
        quiet={
            f"model.{name}.weight": 0.1
            for name in ("embed_tokens", "layers.*.self_attn.o_proj", "layers.*.mlp.down_proj")
        },
    ),
    "olmo2": Family(
        config={**OLMO_SIZES, "model_type": "olmo2", "rms_norm_eps": EPS},
        spec=decoder(RMS, layers(olmo())),
    ),
    "olmo3": Family(
        config={
            **OLMO_SIZES,
            **LOCAL,
            "model_type": "olmo3",
            "rms_norm_eps": EPS,
            "rope_parameters": {
                "full_attention": rope(rope_type="linear", factor=2.0),
                "sliding_attention": rope(),
            },
        },
        spec=decoder(
            RMS, layers(olmo(window=WINDOW), olmo(Rope(theta=THETA, scaling=LinearScaling(factor=2.0))))
        ),
    ),
    "exaone4": Family(
        config={**OLMO_SIZES, **LOCAL, "model_type": "exaone4", "rms_norm_eps": EPS},
        spec=decoder(RMS, layers(exaone(ROPE, window=WINDOW), exaone(NoPosition()))),
        weights=NORM_AFTER,
    ),
    "glm4": Family(
        config={
            **SIZES,
            "model_type": "glm4",
            "head_dim": HEAD_DIM,
            "rms_norm_eps": EPS,
            "attention_bias": True,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        spec=decoder(
            RMS,
            layers(
                Sandwich(
                    norm=RMS,
                    attention=gqa(
                        Rope(theta=THETA, rotary_dim=HEAD_DIM // 2, pairing="interleaved"),
                        head_dim=HEAD_DIM,
                        bias=("q", "k", "v"),
                    ),
                    ffn=SWIGLU,
                )
            ),
        ),
        weights={
            **LLAMA,
            "model.layers.*.post_self_attn_layernorm.weight": "layers.*.attention_post_norm.weight",
            "model.layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
            "model.layers.*.mlp.gate_up_proj.weight": GATE_UP,
        },
    ),
    "nemotron": Family(
        config={
            **SIZES,
            "model_type": "nemotron",
            "head_dim": HEAD_DIM,
            "norm_eps": EPS,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        spec=decoder(
            NEMOTRON,
            layers(
                PreNorm(
                    norm=NEMOTRON,
                    attention=gqa(Rope(theta=THETA, rotary_dim=HEAD_DIM // 2), head_dim=HEAD_DIM),
                    ffn=MLP(d_ff=D_FF, activation=SquaredReLU()),
                )
            ),
        ),
    ),
}
