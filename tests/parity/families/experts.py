"""Families with a mixture of experts over grouped-query attention: Mixtral, Qwen MoE, GLM-4.5, OLMoE."""

from __future__ import annotations

from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.modules import (
    GLU,
    Embedding,
    GroupedQueryAttention,
    Head,
    MixtureOfExperts,
    MultiQueryAttention,
    PreNorm,
    QKNorm,
    Rope,
    Router,
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

E, K, WIDTH = 6, 2, 20
SWIGLU, EXPERT = GLU(d_ff=D_FF), GLU(d_ff=WIDTH)
BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope(), "num_experts_per_tok": K}
SIGMOID = Router(scores="sigmoid", scale=1.7, correction=True)
GROUPED = Router(scores="sigmoid", scale=1.7, correction=True, n_groups=2, top_k_groups=1, group_score="top2")
MOE = {**LLAMA, **EXPERTS}


ROPE = Rope(theta=THETA)


def gqa(position=ROPE, **options):
    return GroupedQueryAttention(n_heads=HEADS, n_kv_heads=KV_HEADS, position=position, **options)


FAMILIES = {
    "mixtral": Family(
        config={**BASE, "model_type": "mixtral", "num_local_experts": E, "sliding_window": WINDOW},
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=gqa(window=WINDOW),
                    ffn=MixtureOfExperts(n_experts=E, top_k=K, expert=SWIGLU),
                ),
            ),
        ),
    ),
    "granite-moe": Family(
        config={
            **BASE,
            "model_type": "granitemoe",
            "num_local_experts": E,
            "attention_multiplier": 0.2,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.6,
            "logits_scaling": 4.0,
        },
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=gqa(scale=0.2),
                    ffn=MixtureOfExperts(
                        n_experts=E, top_k=K, expert=SWIGLU, router=Router(scores="softmax_after")
                    ),
                    residual_multiplier=0.6,
                )
            ),
            embedding=Embedding(scale=3.0),
            head=Head(scale=1 / 4.0),
        ),
        weights={
            **{name.replace(".mlp.", ".block_sparse_moe."): rule for name, rule in MOE.items()},
            "[model.]layers.*.block_sparse_moe.router.weight": "layers.*.ffn.router.weight",
            "[model.]layers.*.block_sparse_moe.router.layer.weight": "layers.*.ffn.router.weight",
            "model.layers.*.block_sparse_moe.input_linear.weight": EXPERTS[
                "[model.]layers.*.mlp.experts.gate_up_proj"
            ],
            "model.layers.*.block_sparse_moe.output_linear.weight": "layers.*.ffn.experts.down_proj.weight",
        },
    ),
    "qwen2-moe": Family(
        config={
            **BASE,
            "model_type": "qwen2_moe",
            "num_experts": E,
            "moe_intermediate_size": WIDTH,
            "shared_expert_intermediate_size": 28,
            "norm_topk_prob": False,
        },
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=gqa(bias=("q", "k", "v")),
                    ffn=MixtureOfExperts(
                        n_experts=E,
                        top_k=K,
                        expert=EXPERT,
                        router=Router(normalized=False),
                        shared=GLU(d_ff=28),
                        shared_gate=True,
                    ),
                )
            ),
        ),
    ),
    "qwen3-moe": Family(
        config={
            **BASE,
            "model_type": "qwen3_moe",
            "head_dim": HEAD_DIM,
            "num_experts": E,
            "moe_intermediate_size": WIDTH,
            "norm_topk_prob": True,
            "mlp_only_layers": [0],
        },
        spec=decoder(
            RMS,
            *(
                layers(
                    PreNorm(norm=RMS, attention=gqa(head_dim=HEAD_DIM, qk_norm=QKNorm(norm=RMS)), ffn=ffn),
                    n_layers=1,
                )
                for ffn in (SWIGLU, MixtureOfExperts(n_experts=E, top_k=K, expert=EXPERT))
            ),
        ),
    ),
    "glm4-moe": Family(
        config={
            **BASE,
            "model_type": "glm4_moe",
            "head_dim": HEAD_DIM,
            "attention_bias": True,
            "use_qk_norm": True,
            "n_routed_experts": E,
            "n_shared_experts": 1,
            "moe_intermediate_size": WIDTH,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.7,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        spec=decoder(
            RMS,
            *(
                layers(
                    PreNorm(
                        norm=RMS,
                        attention=gqa(
                            Rope(theta=THETA, rotary_dim=HEAD_DIM // 2),
                            head_dim=HEAD_DIM,
                            bias=("q", "k", "v"),
                            qk_norm=QKNorm(norm=RMS),
                        ),
                        ffn=ffn,
                    ),
                    n_layers=1,
                )
                for ffn in (
                    SWIGLU,
                    MixtureOfExperts(n_experts=E, top_k=K, expert=EXPERT, router=SIGMOID, shared=EXPERT),
                )
            ),
        ),
    ),
    "sarvam-moe": Family(
        {
            **BASE,
            "model_type": "sarvam_moe",
            "head_dim": HEAD_DIM,
            "n_routed_experts": E,
            "n_shared_experts": 1,
            "moe_intermediate_size": WIDTH,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.7,
        }
    ),
    "dots1": Family(
        config={
            **BASE,
            "model_type": "dots1",
            "head_dim": HEAD_DIM,
            "n_routed_experts": E,
            "n_shared_experts": 1,
            "moe_intermediate_size": WIDTH,
            "n_group": 2,
            "topk_group": 1,
            "norm_topk_prob": True,
            "routed_scaling_factor": 1.7,
            "layer_types": ["full_attention", "sliding_attention"],
            "sliding_window": WINDOW,
        },
        spec=decoder(
            RMS,
            layers(
                *(
                    PreNorm(
                        norm=RMS,
                        attention=gqa(head_dim=HEAD_DIM, qk_norm=QKNorm(norm=RMS), window=window),
                        ffn=MixtureOfExperts(
                            n_experts=E, top_k=K, expert=EXPERT, router=GROUPED, shared=EXPERT
                        ),
                    )
                    for window in (None, WINDOW)
                )
            ),
        ),
        weights={**MOE, **SHARED, **QK_NORM, **CORRECTED},
    ),
    "olmoe": Family(
        config={**BASE, "model_type": "olmoe", "num_experts": E, "norm_topk_prob": False},
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=gqa(qk_norm=QKNorm(per="full", norm=RMS)),
                    ffn=MixtureOfExperts(
                        n_experts=E, top_k=K, expert=SWIGLU, router=Router(normalized=False)
                    ),
                )
            ),
        ),
        weights={**MOE, **QK_NORM},
    ),
    "mimo-v2-flash": Family(
        config={
            **BASE,
            "model_type": "mimo_v2_flash",
            "head_dim": HEAD_DIM,
            "v_head_dim": 6,
            "n_routed_experts": E,
            "moe_intermediate_size": WIDTH,
            "sliding_window": WINDOW,
            "num_key_value_heads": 1,
            "layer_types": ["full_attention", "sliding_attention"],
            "mlp_layer_types": ["dense", "sparse"],
            "attention_value_scale": None,
            "routed_scaling_factor": 1.7,
            "rope_parameters": {
                "full_attention": rope(500.0, partial_rotary_factor=0.34),
                "sliding_attention": rope(partial_rotary_factor=0.34),
            },
        },
        spec=decoder(
            RMS,
            layers(
                PreNorm(
                    norm=RMS,
                    attention=MultiQueryAttention(
                        n_heads=HEADS,
                        head_dim=HEAD_DIM,
                        v_head_dim=6,
                        position=Rope(theta=500.0, rotary_dim=4),
                    ),
                    ffn=SWIGLU,
                ),
                n_layers=1,
            ),
            layers(
                PreNorm(
                    norm=RMS,
                    attention=gqa(
                        Rope(theta=THETA, rotary_dim=4),
                        head_dim=HEAD_DIM,
                        v_head_dim=6,
                        window=WINDOW,
                        sinks=True,
                    ),
                    ffn=MixtureOfExperts(n_experts=E, top_k=K, expert=EXPERT, router=SIGMOID),
                ),
                n_layers=1,
            ),
        ),
        weights={
            **MOE,
            **CORRECTED,
            "model.layers.*.self_attn.sinks": "layers.*.attention.sinks.weight",
            "model.layers.*.self_attn.attention_sink_bias": "layers.*.attention.sinks.weight",
        },
    ),
}
