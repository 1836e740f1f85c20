"""Families with multi-head latent attention: DeepSeek-V2, DeepSeek-V3, MiniCPM3."""

from __future__ import annotations

from archcli.modules import (
    GLU,
    Embedding,
    Head,
    MixtureOfExperts,
    MultiHeadLatentAttention,
    PreNorm,
    RMSNorm,
    Rope,
    Router,
    YarnScaling,
)
from parity.family import D_FF, D_MODEL, EPS, HEADS, RMS, SIZES, THETA, Family, decoder, layers, rope

WIDTH, SWIGLU, EXPERT = 20, GLU(d_ff=D_FF), GLU(d_ff=20)
# The latent norms' eps is 1e-6 whatever the config says; latents this small feel it.
QUIET = {"model.layers.*.self_attn.kv_a_proj_with_mqa.*": 0.03, "model.layers.*.self_attn.q_a_proj.*": 0.03}
LATENT = RMSNorm(eps=1e-6)
RANKS = {"kv_lora_rank": 14, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 6}
BASE = {
    **SIZES,
    **RANKS,
    "rms_norm_eps": EPS,
    "num_key_value_heads": HEADS,
    "q_lora_rank": 18,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": WIDTH,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.7,
    "rope_parameters": rope(),
}
YARN = {"factor": 4.0, "beta_fast": 1.2, "beta_slow": 0.2, "mscale": 0.8, "mscale_all_dim": 0.5}
PAIRS = Rope(theta=THETA, pairing="interleaved")
STRETCHED = Rope(theta=THETA, pairing="interleaved", scaling=YarnScaling(original_max_seq_len=16, **YARN))
GROUPED = Router(scores="sigmoid", scale=1.7, correction=True, n_groups=4, top_k_groups=2, group_score="top2")
LIMITED = Router(normalized=False, scale=1.7, n_groups=4, top_k_groups=2)


def mla(position=PAIRS, **options):
    return MultiHeadLatentAttention(
        **{"n_heads": HEADS, "latent_norm": LATENT, "q_lora_rank": 18, **RANKS, **options}, position=position
    )


def deepseek(attention, router, n_shared=1):
    moe = MixtureOfExperts(
        n_experts=8, top_k=3, expert=EXPERT, router=router, shared=GLU(d_ff=WIDTH * n_shared)
    )
    return decoder(
        RMS, *(layers(PreNorm(norm=RMS, attention=attention, ffn=ffn), n_layers=1) for ffn in (SWIGLU, moe))
    )


V3 = {**BASE, "model_type": "deepseek_v3", "n_group": 4, "topk_group": 2}
V3_YARN = {**V3, "rope_parameters": rope(rope_type="yarn", original_max_position_embeddings=16, **YARN)}

FAMILIES = {
    "deepseek-v3": Family(config=V3_YARN, spec=deepseek(mla(STRETCHED), GROUPED), quiet=QUIET),
    "deepseek-v3-absorbed": Family(
        config=V3_YARN, spec=deepseek(mla(STRETCHED, form="absorbed"), GROUPED), quiet=QUIET
    ),
    "deepseek-v3-no-q-lora": Family(
        config={
            **V3,
            "q_lora_rank": None,
            "rope_interleave": False,
            "attention_bias": True,
            "norm_topk_prob": False,
            "n_shared_experts": 2,
        },
        spec=deepseek(
            mla(Rope(theta=THETA), q_lora_rank=None, bias=True),
            GROUPED.replace(normalized=False),
            n_shared=2,
        ),
        quiet=QUIET,
    ),
    "deepseek-v2": Family(
        config={
            **BASE,
            "model_type": "deepseek_v2",
            "n_group": 4,
            "topk_group": 2,
            "topk_method": "group_limited_greedy",
        },
        spec=deepseek(mla(), LIMITED, n_shared=2),
        quiet=QUIET,
    ),
    "minicpm3": Family(
        config={
            **BASE,
            "model_type": "minicpm3",
            "scale_emb": 3.0,
            "scale_depth": 1.4,
            "dim_model_base": 8,
            "tie_word_embeddings": True,
        },
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS, attention=mla(Rope(theta=THETA)), ffn=SWIGLU, residual_multiplier=1.4 / 2**0.5
                )
            ),
            embedding=Embedding(tied=True, scale=3.0),
            head=Head(scale=8 / D_MODEL),
        ),
        quiet=QUIET,
    ),
}
