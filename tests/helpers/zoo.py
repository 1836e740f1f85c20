"""Tiny models, one per way a family is built, and how to fill them with numbers that would show a mistake."""

import torch

from archcli.modules import (
    GELU,
    GLU,
    MLP,
    ALiBi,
    Decoder,
    Embedding,
    GELUTanh,
    Group,
    GroupedQueryAttention,
    Head,
    LayerNorm,
    Learned,
    MixtureOfExperts,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    NoPosition,
    Parallel,
    PostNorm,
    PreNorm,
    QKNorm,
    ResidualPostNorm,
    RMSNorm,
    Rope,
    Router,
    Sandwich,
    Sinusoidal,
    SquaredReLU,
    Swish,
)
from archcli.wings.running.runtime.model.build import build_model

D, V = 16, 29
RMS, LN, GEMMA = RMSNorm(), LayerNorm(), RMSNorm(offset=1)
ROPE = Rope(theta=100.0)


def model(*layers, n_layers=None, norm=RMS, **fields):
    return Decoder(
        vocab_size=V,
        d_model=D,
        norm=norm,
        groups=(Group(n_layers=n_layers or len(layers), pattern=layers),),
        **fields,
    )


def gqa(**fields):
    return GroupedQueryAttention(**{"n_heads": 4, "n_kv_heads": 2, "head_dim": 6, "position": ROPE} | fields)


def mla(**fields):
    sizes = {
        "n_heads": 3,
        "kv_lora_rank": 7,
        "qk_nope_head_dim": 5,
        "qk_rope_head_dim": 4,
        "v_head_dim": 3,
        "latent_norm": RMS,
    }
    return MultiHeadLatentAttention(**sizes | {"position": Rope(theta=100.0, pairing="interleaved")} | fields)


def moe(**fields):
    return MixtureOfExperts(**{"n_experts": 4, "top_k": 2, "expert": GLU(d_ff=10)} | fields)


DEEPSEEK = moe(
    n_experts=8,
    shared=GLU(d_ff=6),
    router=Router(
        scores="sigmoid", correction=True, n_groups=2, top_k_groups=1, group_score="top2", scale=2.5
    ),
)
QWEN_MOE = moe(
    expert=MLP(d_ff=5, bias=True, activation=Swish(beta=1.5, learnt=True)),
    shared=GLU(d_ff=6, bias=True),
    shared_gate=True,
    router=Router(scores="softmax_after", bias=True),
)
GPT2 = {"embedding": Embedding(tied=True, position=Learned(max_seq_len=32, offset=2)), "norm": LN}

ZOO = {
    "gpt2": model(
        PreNorm(
            attention=MultiHeadAttention(n_heads=4, bias=True),
            ffn=MLP(d_ff=20, activation=GELUTanh(), bias=True),
            norm=LN,
        ),
        **GPT2,
    ),
    "llama": model(PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=RMS), n_layers=2),
    "gemma2": model(
        Sandwich(
            attention=gqa(window=4, softcap=5.0, scale=0.3),
            ffn=GLU(d_ff=20, activation=GELUTanh()),
            norm=GEMMA,
        ),
        Sandwich(attention=gqa(softcap=5.0, scale=0.3), ffn=GLU(d_ff=20, activation=GELUTanh()), norm=GEMMA),
        n_layers=3,
        norm=GEMMA,
        embedding=Embedding(tied=True, scale="sqrt_d_model"),
        head=Head(softcap=3.0),
    ),
    "olmo2": model(
        ResidualPostNorm(attention=gqa(qk_norm=QKNorm(per="full", norm=RMS)), ffn=GLU(d_ff=20), norm=RMS)
    ),
    "cohere": model(
        Parallel(
            attention=gqa(qk_norm=QKNorm(per="head_distinct", norm=LN)),
            ffn=GLU(d_ff=20),
            norm=LayerNorm(bias=False),
        ),
        norm=LayerNorm(bias=False),
        head=Head(scale=0.25),
        embedding=Embedding(tied=True),
    ),
    "neox": model(
        Parallel(
            attention=MultiHeadAttention(n_heads=2, bias=True, position=Rope(rotary_dim=4)),
            ffn=MLP(d_ff=20, bias=True),
            norm=LN,
            n_norms=2,
        ),
        norm=LN,
    ),
    "bloom": model(
        PreNorm(
            attention=MultiHeadAttention(n_heads=3, head_dim=4, bias=True, position=ALiBi()),
            ffn=MLP(d_ff=20, bias=True),
            norm=LN,
        ),
        norm=LN,
        embedding=Embedding(tied=True, norm=LN),
    ),
    "vaswani": model(
        PostNorm(
            attention=MultiHeadAttention(n_heads=2), ffn=MLP(d_ff=20, activation=SquaredReLU()), norm=LN
        ),
        final_norm=False,
        norm=LN,
        embedding=Embedding(position=Sinusoidal(), scale=0.5),
        head=Head(bias=True),
    ),
    "mixtral": model(PreNorm(attention=gqa(window=4), ffn=moe(), norm=RMS), n_layers=2),
    "qwen-moe": model(
        PreNorm(attention=gqa(bias=("q", "k", "v")), ffn=QWEN_MOE, norm=RMS, residual_multiplier=0.5)
    ),
    "gpt-oss": model(
        PreNorm(attention=gqa(window=4, sinks=True, bias=True), ffn=moe(), norm=RMS),
        PreNorm(attention=gqa(sinks=True), ffn=moe(), norm=RMS),
    ),
    "deepseek": model(
        PreNorm(attention=mla(q_lora_rank=6), ffn=GLU(d_ff=20), norm=RMS),
        PreNorm(attention=mla(q_lora_rank=6), ffn=DEEPSEEK, norm=RMS),
    ),
    "deepseek-absorbed": model(PreNorm(attention=mla(form="absorbed"), ffn=DEEPSEEK, norm=RMS)),
    "llama4": model(
        PreNorm(
            attention=gqa(chunk=4, qk_norm=QKNorm(when="after_rope", norm=RMSNorm(weight=False))),
            ffn=moe(),
            norm=RMS,
        ),
        PreNorm(attention=gqa(position=NoPosition(), clip=0.8), ffn=GLU(d_ff=12), norm=RMS),
    ),
    "mqa": model(
        PreNorm(
            attention=MultiQueryAttention(n_heads=3, head_dim=4, v_head_dim=5, position=ROPE),
            ffn=MLP(d_ff=9, activation=GELU()),
            norm=RMS,
        )
    ),
}
"""One model per way of building one."""


def built(spec, **options):
    """The model with every parameter and buffer random at scale 1, so that no part of it is silent."""
    torch.manual_seed(0)
    made = build_model(spec, **options)
    with torch.no_grad():
        for tensor in [*made.parameters(), *made.buffers()]:
            tensor.normal_(std=1.0 if tensor.ndim < 2 else tensor.shape[-1] ** -0.5)
    return made


def tokens(batch_size=2, length=9):
    return torch.randint(V, (batch_size, length), generator=torch.Generator().manual_seed(1))


def assert_close(ours, theirs, tolerance=1e-5):
    """Largest difference within the tolerance, relative to the largest value where that is above 1."""
    worst = (ours.float() - theirs.float()).abs().max()
    assert worst <= tolerance * max(1.0, theirs.abs().max().item()), f"differs by {worst}"
