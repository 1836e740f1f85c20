"""Families that differ from Llama in few places.

Positions, windows, biases, multipliers, fused projections.
"""

from __future__ import annotations

from archcli.load.huggingface.weights.names import LLAMA
from archcli.modules import (
    GLU,
    MLP,
    Activation,
    DynamicNTKScaling,
    Embedding,
    GroupedQueryAttention,
    Head,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NoPosition,
    NTKScaling,
    PreNorm,
    QKNorm,
    ReLU,
    RMSNorm,
    Rope,
    RopeScaling,
    Sigmoid,
    SiLU,
    SquaredReLU,
    YarnScaling,
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

BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}
SWIGLU, ROPE = GLU(d_ff=D_FF), Rope(theta=THETA)


def attention(position=ROPE, **options):
    return GroupedQueryAttention(n_heads=HEADS, n_kv_heads=KV_HEADS, position=position, **options)


def block(**options):
    return PreNorm(norm=RMS, attention=attention(**options), ffn=SWIGLU)


def llama(scaling: RopeScaling, activation: Activation, theta: float = THETA, **theirs: object) -> Family:
    """Llama with any width of heads, stretched frequencies, and any activation for its gate."""
    attend = attention(Rope(theta=theta, scaling=scaling), head_dim=HEAD_DIM)
    return Family(
        config={
            **BASE,
            "model_type": "llama",
            "head_dim": HEAD_DIM,
            "hidden_act": activation.kind,
            "rope_parameters": rope(theta, **theirs),
        },
        spec=decoder(
            RMS, layers(PreNorm(norm=RMS, attention=attend, ffn=GLU(d_ff=D_FF, activation=activation)))
        ),
    )


# Theta 16 and an original context of 16 put pairs on either side of both wavelength bounds, 16 and 8, and
# some between.
LLAMA3 = llama(
    Llama3Scaling(factor=4.0, low_freq_factor=1.0, high_freq_factor=2.0, original_max_seq_len=16),
    SiLU(),
    16.0,
    rope_type="llama3",
    factor=4.0,
    low_freq_factor=1.0,
    high_freq_factor=2.0,
    original_max_position_embeddings=16,
)
YARN = {"factor": 4.0, "beta_fast": 1.2, "beta_slow": 0.2}

LONG = {"short_factor": (1.0, 1.3, 1.7, 2.0), "long_factor": (1.5, 2.5, 4.0, 6.0)}

FAMILIES = {
    "llama": LLAMA3,
    "llama-biased": Family(
        config={
            **BASE,
            "model_type": "llama",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
        spec=decoder(
            RMS,
            layers(PreNorm(norm=RMS, attention=attention(bias=True), ffn=GLU(d_ff=D_FF, bias=True))),
            embedding=Embedding(tied=True),
        ),
    ),
    "llama-linear": llama(LinearScaling(factor=3.0), ReLU(), rope_type="linear", factor=3.0),
    "llama-yarn": llama(
        YarnScaling(original_max_seq_len=16, **YARN),
        Sigmoid(),
        rope_type="yarn",
        original_max_position_embeddings=16,
        **YARN,
    ),
    "llama-dynamic": Family(
        config={
            **BASE,
            "model_type": "llama",
            "max_position_embeddings": 12,
            "rope_parameters": rope(rope_type="dynamic", factor=3.0),
        },
        spec=decoder(
            RMS,
            layers(
                block(
                    position=Rope(theta=THETA, scaling=DynamicNTKScaling(factor=3.0, original_max_seq_len=12))
                )
            ),
        ),
        restretched=True,
    ),
    "mistral": Family(
        config={**BASE, "model_type": "mistral", "head_dim": HEAD_DIM, "sliding_window": WINDOW},
        spec=decoder(RMS, layers(block(head_dim=HEAD_DIM, window=WINDOW))),
    ),
    "qwen2": Family(
        config={
            **BASE,
            "model_type": "qwen2",
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
        },
        spec=decoder(RMS, layers(block(bias=("q", "k", "v")), block(bias=("q", "k", "v"), window=WINDOW))),
    ),
    "qwen3": Family(
        config={**BASE, "model_type": "qwen3", "head_dim": HEAD_DIM},
        spec=decoder(RMS, layers(block(head_dim=HEAD_DIM, qk_norm=QKNorm(norm=RMS)))),
    ),
    "smollm3": Family(
        config={**BASE, "model_type": "smollm3", "no_rope_layers": [1, 0], "tie_word_embeddings": True},
        spec=decoder(RMS, layers(block(), block(position=NoPosition())), embedding=Embedding(tied=True)),
    ),
    "granite": Family(
        config={
            **BASE,
            "model_type": "granite",
            "tie_word_embeddings": True,
            "attention_multiplier": 0.2,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.6,
            "logits_scaling": 4.0,
        },
        spec=decoder(
            RMS,
            layers(PreNorm(norm=RMS, attention=attention(scale=0.2), ffn=SWIGLU, residual_multiplier=0.6)),
            embedding=Embedding(tied=True, scale=3.0),
            head=Head(scale=1 / 4.0),
        ),
    ),
    "phi3": Family(
        config={
            **BASE,
            "model_type": "phi3",
            "max_position_embeddings": 40,
            "original_max_position_embeddings": 12,
            "rope_parameters": rope(
                rope_type="longrope",
                original_max_position_embeddings=12,
                **{key: list(value) for key, value in LONG.items()},
            ),
            "sliding_window": WINDOW + 2,
        },
        spec=decoder(
            RMS,
            layers(
                block(
                    window=WINDOW + 2,
                    position=Rope(
                        theta=THETA, scaling=LongRopeScaling(factor=40 / 12, original_max_seq_len=12, **LONG)
                    ),
                )
            ),
        ),
        restretched=True,
    ),
    "glm": Family(
        config={
            **BASE,
            "model_type": "glm",
            "head_dim": HEAD_DIM,
            "attention_bias": True,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        spec=decoder(
            RMS,
            layers(
                block(
                    head_dim=HEAD_DIM,
                    bias=("q", "k", "v"),
                    position=Rope(theta=THETA, rotary_dim=HEAD_DIM // 2, pairing="interleaved"),
                )
            ),
        ),
    ),
    "hunyuan": Family(
        config={
            **BASE,
            "model_type": "hunyuan_v1_dense",
            "head_dim": HEAD_DIM,
            "rope_parameters": rope(rope_type="dynamic", alpha=3.0, factor=1.0),
        },
        spec=decoder(
            RMS,
            layers(
                block(
                    head_dim=HEAD_DIM,
                    qk_norm=QKNorm(norm=RMS, when="after_rope"),
                    position=Rope(theta=THETA, scaling=NTKScaling(factor=3.0)),
                )
            ),
        ),
        weights={
            **LLAMA,
            "model.layers.*.self_attn.query_layernorm.weight": "layers.*.attention.q_norm.weight",
            "model.layers.*.self_attn.key_layernorm.weight": "layers.*.attention.k_norm.weight",
        },
    ),
    # Llama 4 without its experts (whose weights multiply the input) and its temperature tuning, which have no
    # modules here yet.
    "llama4-dense": Family(
        config={
            **BASE,
            "model_type": "llama4_text",
            "head_dim": HEAD_DIM,
            "intermediate_size_mlp": D_FF,
            "moe_layers": [],
            "no_rope_layers": [1, 0],
            "attention_chunk_size": WINDOW,
            "attn_temperature_tuning": False,
            "use_qk_norm": True,
        },
        spec=decoder(
            RMS,
            layers(
                block(
                    head_dim=HEAD_DIM,
                    chunk=WINDOW,
                    qk_norm=QKNorm(norm=RMSNorm(eps=EPS, weight=False), when="after_rope"),
                    position=Rope(theta=THETA, pairing="interleaved"),
                ),
                block(head_dim=HEAD_DIM, position=NoPosition()),
            ),
        ),
    ),
    "ernie4.5": Family(
        config={**BASE, "model_type": "ernie4_5", "head_dim": HEAD_DIM, "use_bias": True},
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=attention(
                        Rope(theta=THETA, pairing="interleaved"), head_dim=HEAD_DIM, bias=True
                    ),
                    ffn=GLU(d_ff=D_FF, bias=True),
                )
            ),
        ),
        weights=LLAMA,
    ),
    "arcee": Family(
        config={**BASE, "model_type": "arcee", "hidden_act": "relu2"},
        spec=decoder(
            RMS,
            layers(PreNorm(norm=RMS, attention=attention(), ffn=MLP(d_ff=D_FF, activation=SquaredReLU()))),
        ),
        weights=LLAMA,
    ),
}
