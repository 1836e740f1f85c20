"""Sequential families with LayerNorm and a plain feed-forward network: GPT-2 and its kin."""

from __future__ import annotations

from archcli.modules import (
    MLP,
    ALiBi,
    Embedding,
    GELUTanh,
    GroupedQueryAttention,
    Head,
    LayerNorm,
    Learned,
    MultiHeadAttention,
    MultiQueryAttention,
    PostNorm,
    PreNorm,
    ReLU,
    Rope,
    Sinusoidal,
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

GPT_SIZES = {
    "vocab_size": SIZES["vocab_size"],
    "n_positions": 64,
    "n_embd": D_MODEL,
    "n_layer": 2,
    "n_head": HEADS,
    "n_inner": D_FF,
    "layer_norm_epsilon": EPS,
}
LEARNED = Embedding(tied=True, position=Learned(max_seq_len=64))
OFFSET = Embedding(tied=True, position=Learned(max_seq_len=64, offset=2))
OPT_SIZES = {**SIZES, "model_type": "opt", "ffn_dim": D_FF, "tie_word_embeddings": True}
# OPT's eps is 1e-5 whatever the config says; a stream this quiet feels it.
OPT_WRITERS = {
    f"model.decoder.{name}": 0.1
    for name in ("embed_*.weight", "layers.*.self_attn.out_proj.*", "layers.*.fc2.*")
}
OPT_LN, GAIN = LayerNorm(), LayerNorm(eps=EPS, bias=False)
OPT_LAYER = {
    "norm": OPT_LN,
    "attention": MultiHeadAttention(n_heads=HEADS, bias=True),
    "ffn": MLP(d_ff=D_FF, activation=ReLU(), bias=True),
}

FAMILIES = {
    "gpt2": Family(
        config={**GPT_SIZES, "model_type": "gpt2"},
        spec=decoder(
            LN,
            layers(PreNorm(norm=LN, attention=MultiHeadAttention(n_heads=HEADS, bias=True), ffn=TANH)),
            embedding=LEARNED,
        ),
    ),
    "gpt-bigcode": Family(
        config={**GPT_SIZES, "model_type": "gpt_bigcode", "multi_query": True},
        spec=decoder(
            LN,
            layers(PreNorm(norm=LN, attention=MultiQueryAttention(n_heads=HEADS, bias=True), ffn=TANH)),
            embedding=LEARNED,
        ),
    ),
    "gpt-1": Family(
        config={**GPT_SIZES, "model_type": "openai-gpt", "n_inner": None},
        spec=decoder(
            LN,
            layers(
                PostNorm(
                    norm=LN,
                    attention=MultiHeadAttention(n_heads=HEADS, bias=True),
                    ffn=MLP(d_ff=4 * D_MODEL, activation=GELUTanh(), bias=True),
                )
            ),
            embedding=LEARNED,
            final_norm=False,
        ),
    ),
    "gpt-neo": Family(
        config={
            "model_type": "gpt_neo",
            "vocab_size": SIZES["vocab_size"],
            "max_position_embeddings": 64,
            "hidden_size": D_MODEL,
            "num_layers": 2,
            "num_heads": HEADS,
            "intermediate_size": D_FF,
            "window_size": WINDOW,
            "attention_types": [[["global", "local"], 1]],
            "layer_norm_epsilon": EPS,
        },
        spec=decoder(
            LN,
            layers(
                *(
                    PreNorm(
                        norm=LN,
                        attention=MultiHeadAttention(n_heads=HEADS, bias=("o",), scale=1.0, window=window),
                        ffn=TANH,
                    )
                    for window in (None, WINDOW)
                )
            ),
            embedding=LEARNED,
        ),
    ),
    "ctrl": Family(
        config={**GPT_SIZES, "model_type": "ctrl", "dff": D_FF},
        spec=decoder(
            LN,
            layers(
                PreNorm(
                    norm=LayerNorm(eps=1e-6),
                    attention=MultiHeadAttention(n_heads=HEADS, bias=True),
                    ffn=MLP(d_ff=D_FF, activation=ReLU(), bias=True),
                )
            ),
            embedding=Embedding(tied=True, scale="sqrt_d_model", position=Sinusoidal(pairing="half")),
            head=Head(bias=True),
        ),
        inert={
            "groups.0.layer.norm: eps*10": (
                "eps is 1e-6 whatever the config says, and the sinusoid keeps the stream at size 1"
            )
        },
    ),
    "opt": Family(
        config=OPT_SIZES,
        spec=decoder(OPT_LN, layers(PreNorm(**OPT_LAYER)), embedding=OFFSET),
        quiet=OPT_WRITERS,
    ),
    "opt-post-norm": Family(
        config={**OPT_SIZES, "do_layer_norm_before": False},
        spec=decoder(OPT_LN, layers(PostNorm(**OPT_LAYER)), embedding=OFFSET, final_norm=False),
        quiet={
            f"model.decoder.layers.*.{name}.*": 0.3
            for name in ("self_attn_layer_norm", "final_layer_norm", "self_attn.out_proj", "fc2")
        },
    ),
    "bloom": Family(
        config={
            "model_type": "bloom",
            "vocab_size": SIZES["vocab_size"],
            "hidden_size": 48,
            "n_layer": 2,
            "n_head": 6,
            "layer_norm_epsilon": EPS,
        },
        spec=decoder(
            LN,
            layers(
                PreNorm(
                    norm=LN,
                    attention=MultiHeadAttention(n_heads=6, bias=True, position=ALiBi()),
                    ffn=MLP(d_ff=4 * 48, activation=GELUTanh(), bias=True),
                )
            ),
            d_model=48,
            embedding=Embedding(tied=True, norm=LN),
        ),
    ),
    "mpt": Family(
        config={
            "model_type": "mpt",
            "vocab_size": SIZES["vocab_size"],
            "d_model": 48,
            "n_heads": 6,
            "n_layers": 2,
            "max_seq_len": 64,
            "layer_norm_epsilon": EPS,
            "attn_config": {"clip_qkv": 1.0, "softmax_scale": 0.3},
        },
        spec=decoder(
            GAIN,
            layers(
                PreNorm(
                    norm=GAIN,
                    attention=MultiHeadAttention(n_heads=6, position=ALiBi(), clip=1.0, scale=0.3),
                    ffn=MLP(d_ff=4 * 48),
                )
            ),
            d_model=48,
            embedding=Embedding(tied=True),
        ),
    ),
    "starcoder2": Family(
        config={
            **SIZES,
            "model_type": "starcoder2",
            "norm_epsilon": EPS,
            "sliding_window": WINDOW,
            "rope_parameters": rope(),
            "tie_word_embeddings": True,
        },
        spec=decoder(
            LN,
            layers(
                PreNorm(
                    norm=LN,
                    attention=GroupedQueryAttention(
                        n_heads=HEADS,
                        n_kv_heads=KV_HEADS,
                        bias=True,
                        window=WINDOW,
                        position=Rope(theta=THETA),
                    ),
                    ffn=TANH,
                )
            ),
            embedding=Embedding(tied=True),
        ),
    ),
}
