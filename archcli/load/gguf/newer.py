"""GGUF architectures newer than those of families.py: the family, metadata keys and tensors of each."""

from __future__ import annotations

from archcli.load.gguf.arch import (
    BIASED,
    BIASED_MLP,
    EPSILON,
    FUSED_GATE,
    LATE,
    LATENT,
    SANDWICH,
    SCANS,
    SHARED_EXPERTS,
    SOFTCAPS,
    WINDOW,
    Arch,
    Names,
)

POST_NORMS: dict[str, Names] = {"post_attention_norm": "attention_norm", "post_ffw_norm": "ffn_norm"}
"""The only norms of a block that has none before attention and network, as in EXAONE 4."""

# metadata does not say whether there are biases: a file has their tensors
QUERY_BIAS = "blk.0.attn_q.bias"
SECTIONS = ("rope.dimension_sections", "n_deepstack_layers")
"""Keys of vision-language files: positions on three axes, all the same number for text."""

STREAMS = 4
"""Streams of alternating updates (AltUp): llama.cpp knows no other number."""

GRANITE = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
    "expert_count": "num_local_experts",
}

INDEXED = {
    **SHARED_EXPERTS,
    **LATENT,
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk",
}
INDEXER: dict[str, Names] = {
    "indexer.attn_q_b": "attention.indexer.query_proj",
    "indexer.attn_k": "attention.indexer.key_proj",
    "indexer.k_norm": "attention.indexer.key_norm",
    "indexer.proj": "attention.indexer.weight_proj",
}

GEMMA_KEYS = {
    **SOFTCAPS,
    **WINDOW,
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "attention.shared_kv_layers": "num_kv_shared_layers",
}
PER_LAYER: dict[str, Names] = {
    **SANDWICH,
    "per_layer_token_embd": "per_layer_embedding.tokens",
    "per_layer_model_proj": "per_layer_embedding.projection",
    "per_layer_proj_norm": "per_layer_embedding.norm",
    "inp_gate": "per_layer_gate",
    "proj": "per_layer_proj",
    "post_norm": "per_layer_norm",
}
"""Tensors of per-layer embeddings, of the whole model and of a layer."""

ALTUP: dict[str, Names] = {
    "altup_proj": tuple(f"altup_in_{i}" for i in range(STREAMS - 1)),
    "altup_unembd_proj": tuple(f"altup_out_{i}" for i in range(STREAMS - 1)),
    "altup_correct_coef": "altup_correction",
    "altup_correct_scale": "altup_output_scale",
    "altup_predict_coef": "altup_prediction",
    "altup_router": "altup_router",
    "altup_router_norm": "altup_norm",
    "laurel_l": "laurel_down",
    "laurel_r": "laurel_up",
    "laurel_post_norm": "laurel_norm",
}
"""Tensors of alternating updates (AltUp) and of learned augmented residuals (LAuReL)."""

PARALLEL_EXPERTS: dict[str, Names] = {
    "ffn_gate_inp": "beside.router",
    "ffn_gate_inp.scale": "beside.router_norm",
    "ffn_gate_up_exps": ("beside.experts.gate_proj", "beside.experts.up_proj"),
    **{f"ffn_{part}_exps": f"beside.experts.{part}_proj" for part in ("gate", "up", "down")},
    "ffn_down_exps.scale": "beside.expert_scale.scale",
    "pre_ffw_norm_2": "beside.expert_norm",
    "post_ffw_norm_1": "ffn_own_norm",
    "post_ffw_norm_2": "beside.out_norm",
}
"""Tensors of Gemma 4's experts, parallel to a dense network."""

DEEPSEEK_V4: dict[str, Names] = {
    "attn_kv": "attention.kv_proj",
    "attn_kv_a_norm": "attention.kv_norm",
    **{f"attn_output_{part}": f"attention.o_{part}_proj" for part in "ab"},
    **{
        f"{theirs}_compressor_{part}": f"{ours}.compressor.{weight}"
        for theirs, ours in (("attn", "attention"), ("indexer", "attention.indexer"))
        for part, weight in (
            ("kv", "key_proj"),
            ("gate", "gate_proj"),
            ("ape", "compress.places"),
            ("norm", "norm"),
        )
    },
    "indexer.attn_q_b": "attention.indexer.query_proj",
    "indexer.proj": "attention.indexer.weight_proj",
    "ffn_gate_tid2eid": "ffn.route.experts_of",
    **{
        f"{theirs}_{part}": f"{ours}{weight}"
        for theirs, ours in (
            ("hc_attn", "attention_hyper"),
            ("hc_ffn", "ffn_hyper"),
            ("output_hc", "hyper_head"),
        )
        for part, weight in (("fn", ""), ("base", "_gates.base"), ("scale", "_gates.scale"))
    },
}
"""Tensors of DeepSeek-V4: compressors, experts by token id, and hyper-connections (hc)."""

NEWER: dict[str, Arch] = {
    "gemma3n": Arch(
        "gemma3n_text",
        "Gemma3nForCausalLM",
        keys={
            **GEMMA_KEYS,
            "rope.freq_base_swa": "rope_local_base_freq",
            "altup.active_idx": "altup_active_idx",
            "altup.num_inputs": "altup_num_inputs",
        },
        fixed={"altup_correct_scale": True},
        flags=BIASED,
        tensors={**PER_LAYER, **ALTUP},
        ignored=("feed_forward_length",),
    ),
    "gemma4": Arch(
        "gemma4_text",
        "Gemma4ForCausalLM",
        keys={
            **GEMMA_KEYS,
            "attention.key_length_swa": "head_dim",
            "expert_used_count": "top_k_experts",
        },
        flags={**BIASED, "enable_moe_block": "blk.0.ffn_gate_inp.weight"},
        tensors={**PER_LAYER, **PARALLEL_EXPERTS},
        rope=False,
        ignored=("attention.key_length", "attention.head_count_kv", "feed_forward_length"),
        unread=("rope_theta",),
    ),
    "step35": Arch(
        "step3p5",
        "Step3p5ForCausalLM",
        keys={
            **WINDOW,
            "expert_count": "moe_num_experts",
            "expert_used_count": "moe_top_k",
            "expert_shared_feed_forward_length": "share_expert_dim",
            "expert_weights_scale": "moe_router_scaling_factor",
        },
        tensors={"attn_gate": "attention.gate_proj"},
        rope=False,
        ignored=(
            "attention.head_count",
            "expert_gating_func",
            "expert_weights_norm",
            "rope.dimension_count_swa",
        ),
    ),
    "deepseek4": Arch(
        "deepseek_v4",
        "DeepseekV4ForCausalLM",
        keys={
            **INDEXED,
            **WINDOW,
            "attention.output_lora_rank": "o_lora_rank",
            "attention.output_group_count": "o_groups",
            "attention.compress_rope_freq_base": "compress_rope_theta",
            "hash_layer_count": "num_hash_layers",
            "hyper_connection.count": "hc_mult",
            "hyper_connection.sinkhorn_iterations": "hc_sinkhorn_iters",
            "hyper_connection.epsilon": "hc_eps",
            "swiglu_clamp_exp": "swiglu_limit",
        },
        tensors=DEEPSEEK_V4,
        partial=True,
        # converters leave the tensors of multi-token prediction out, and shared experts have the same bound
        ignored=("feed_forward_length", "nextn_predict_layers", "swiglu_clamp_shexp"),
    ),
    "deepseek32": Arch("deepseek_v32", "DeepseekV32ForCausalLM", keys=INDEXED, tensors=INDEXER),
    "glm-dsa": Arch("glm_moe_dsa", "GlmMoeDsaForCausalLM", keys=INDEXED, tensors=INDEXER),
    "arcee": Arch("arcee", "ArceeForCausalLM", flags=BIASED_MLP),
    "seed_oss": Arch(
        "seed_oss",
        "SeedOssForCausalLM",
        flags={
            "attention_bias": QUERY_BIAS,
            "attention_out_bias": "blk.0.attn_output.bias",
            "mlp_bias": "blk.0.ffn_up.bias",
        },
        tensors=LATE,
    ),
    "exaone4": Arch("exaone4", "Exaone4ForCausalLM", keys=WINDOW, tensors=POST_NORMS),
    "ernie4_5": Arch("ernie4_5", "Ernie4_5ForCausalLM", flags={"use_bias": QUERY_BIAS}),
    "ernie4_5-moe": Arch(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        keys={
            "expert_count": "moe_num_experts",
            "expert_used_count": "moe_k",
            "expert_shared_count": "moe_num_shared_experts",
            "leading_dense_block_count": "moe_layer_start_index",
            "interleave_moe_layer_step": "moe_layer_interval",
        },
        flags={"use_bias": QUERY_BIAS},
        # a parameter of the class (Ernie4_5_MoeStatics), where most families have a buffer
        tensors={"exp_probs_b": "ffn.correction.weight"},
        ignored=("expert_shared_feed_forward_length",),
    ),
    "paddleocr": Arch(
        "paddleocr_vl_text", "Ernie4_5ForCausalLM", flags={"use_bias": QUERY_BIAS}, ignored=SECTIONS
    ),
    "afmoe": Arch(
        "afmoe",
        "AfmoeForCausalLM",
        keys={
            **WINDOW,
            "expert_shared_count": "num_shared_experts",
            "leading_dense_block_count": "num_dense_layers",
            "expert_weights_scale": "route_scale",
        },
        tensors={
            **SANDWICH,
            "attn_gate": "attention.gate_proj",
            # `expert_bias`, a parameter of the class
            "exp_probs_b": "ffn.correction.weight",
        },
    ),
    "glm4": Arch(
        "glm4",
        "Glm4ForCausalLM",
        flags={"attention_bias": QUERY_BIAS},
        tensors={**FUSED_GATE, **SANDWICH},
        partial=True,
        ignored=SECTIONS,
    ),
    "granitemoe": Arch("granitemoe", "GraniteMoeForCausalLM", keys=GRANITE, flags=BIASED, ignored=SCANS),
    "dots1": Arch("dots1", "Dots1ForCausalLM", keys=SHARED_EXPERTS, flags=BIASED),
    "olmoe": Arch("olmoe", "OlmoeForCausalLM", flags=BIASED),
    "jais2": Arch("jais2", "Jais2ForCausalLM", flags=BIASED_MLP),
    "minimax-m2": Arch(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        keys={"expert_count": "num_local_experts"},
        partial=True,
        ignored=("expert_feed_forward_length",),
    ),
    "starcoder": Arch(
        "gpt_bigcode",
        "GPTBigCodeForCausalLM",
        keys={**EPSILON, "feed_forward_length": "n_inner", "context_length": "n_positions"},
        rope=False,
        unread=("num_key_value_heads", "head_dim"),
    ),
    "cohere2": Arch(
        "cohere2", "Cohere2ForCausalLM", keys={**WINDOW, "logit_scale": "logit_scale"}, flags=BIASED
    ),
    "exaone-moe": Arch(
        "exaone_moe",
        "ExaoneMoeForCausalLM",
        keys={
            **SHARED_EXPERTS,
            **WINDOW,
            "expert_count": "num_experts",
            "expert_shared_count": "num_shared_experts",
        },
        ignored=("expert_shared_feed_forward_length",),
    ),
    "hunyuan-dense": Arch("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", flags=BIASED),
    "dbrx": Arch(
        "dbrx",
        "DbrxForCausalLM",
        tensors={"attn_output_norm": "ffn_norm"},
        ignored=("attention.layer_norm_epsilon",),
        unread=(
            "intermediate_size",
            "num_key_value_heads",
            "rope_theta",
            "num_experts",
            "num_experts_per_tok",
        ),
    ),
    "qwen": Arch(
        "qwen",
        "QWenLMHeadModel",
        keys={**EPSILON, "context_length": "seq_length", "rope.freq_base": "rotary_emb_base"},
        unread=("num_key_value_heads", "rope_theta"),
    ),
    "internlm2": Arch("internlm2", "InternLM2ForCausalLM", flags={"bias": QUERY_BIAS}),
    "xverse": Arch("xverse", "XverseForCausalLM", unread=("num_key_value_heads",)),
    "exaone": Arch("exaone", "ExaoneForCausalLM", keys={**EPSILON, "block_count": "num_layers"}),
    # Orion's class has LayerNorms, and calls their epsilon rms_norm_eps
    "orion": Arch("orion", "OrionForCausalLM", keys={"attention.layer_norm_epsilon": "rms_norm_eps"}),
    "minicpm": Arch("minicpm", "MiniCPMForCausalLM", keys={"embedding_scale": "scale_emb"}),
    "deepseek": Arch("deepseek", "DeepseekForCausalLM", keys=SHARED_EXPERTS, flags=BIASED),
    "qwen2vl": Arch("qwen2", "Qwen2ForCausalLM", ignored=SECTIONS),
    "qwen3vl": Arch("qwen3", "Qwen3ForCausalLM", flags=BIASED, ignored=SECTIONS),
    "qwen3vlmoe": Arch(
        "qwen3_moe", "Qwen3MoeForCausalLM", fixed={"norm_topk_prob": True}, flags=BIASED, ignored=SECTIONS
    ),
}
"""Families by `general.architecture`."""

GRANITE_SHARED = NEWER["granitemoe"]._replace(
    model_type="granitemoeshared",
    cls="GraniteMoeSharedForCausalLM",
    keys={**GRANITE, "expert_shared_feed_forward_length": "shared_intermediate_size"},
)
"""A `granitemoe` with a shared expert."""
