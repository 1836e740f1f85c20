"""Latent attention with an indexer, tiny, as llama.cpp stores it."""

from gguf_files.experts import DEEP, DEEP_KEYS
from gguf_files.names import EXPERTS, INDEXER, LLAMA, MLA
from gguf_files.stored import ROPE, THETA, of

CONFIG = {
    **DEEP,
    "n_routed_experts": 8,
    "routed_scaling_factor": 2.5,
    "n_group": 4,
    "topk_group": 2,
    "index_n_heads": 5,
    "index_head_dim": 12,
    "index_topk": 7,
    **THETA,
}
KEYS = {
    **DEEP_KEYS,
    **ROPE,
    "expert_weights_scale": 2.5,
    "expert_weights_norm": True,
    "expert_group_count": 4,
    "expert_group_used_count": 2,
    "expert_gating_func": 2,
    "attention.indexer.head_count": 5,
    "attention.indexer.key_length": 12,
    "attention.indexer.top_k": 7,
}
NAMES = {**LLAMA, **EXPERTS, **MLA, **INDEXER}

SLIDING, SPARSE, HEAVY = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
V4 = {
    "model_type": "deepseek_v4",
    "intermediate_size": 20,  # the class knows the width of its experts by this name, too
    "num_hidden_layers": 4,
    "layer_types": [SLIDING, SPARSE, HEAVY, SPARSE],
    "num_key_value_heads": 1,
    "head_dim": 12,
    "qk_rope_head_dim": 6,
    "sliding_window": 9,
    "q_lora_rank": 18,
    "o_groups": 2,
    "o_lora_rank": 9,
    "index_n_heads": 5,
    "index_head_dim": 10,
    "index_topk": 7,
    "moe_intermediate_size": 20,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "num_hash_layers": 2,
    "routed_scaling_factor": 1.5,
    "swiglu_limit": 10.0,
    "hc_mult": 3,
    "hc_sinkhorn_iters": 2,
    "hc_eps": 1e-6,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
    "compress_rope_theta": 1600.0,
    "tie_word_embeddings": False,
}
V4_KEYS = {
    "attention.layer_norm_rms_epsilon": 1e-5,
    "block_count": 4,
    "attention.head_count_kv": 1,
    "attention.key_length": 12,
    "attention.value_length": 12,
    "rope.dimension_count": 6,
    "rope.freq_base": 500.0,
    "attention.sliding_window": 9,
    "attention.q_lora_rank": 18,
    "attention.output_lora_rank": 9,
    "attention.output_group_count": 2,
    # one more, of the layer of multi-token prediction
    "attention.compress_ratios": [0, 4, 128, 4, 0],
    "attention.compress_rope_freq_base": 1600.0,
    "attention.indexer.head_count": 5,
    "attention.indexer.key_length": 10,
    "attention.indexer.top_k": 7,
    "expert_feed_forward_length": 20,
    "expert_count": 8,
    "expert_used_count": 3,
    "expert_shared_count": 1,
    "expert_weights_scale": 1.5,
    "expert_weights_norm": True,
    "expert_gating_func": 4,
    "swiglu_clamp_exp": [10.0] * 4,
    "hash_layer_count": 2,
    "nextn_predict_layers": 1,
    "hyper_connection.count": 3,
    "hyper_connection.sinkhorn_iterations": 2,
    "hyper_connection.epsilon": 1e-6,
}
COMPRESSOR = {"kv_proj": "kv", "gate_proj": "gate", "position_bias": "ape.weight", "kv_norm": "norm"}
V4_NAMES = {
    **LLAMA,
    **EXPERTS,
    "model.layers.N.mlp.gate.tid2eid": "blk.N.ffn_gate_tid2eid.weight",
    **{f"model.layers.N.self_attn.{part}_proj": f"blk.N.attn_{part}" for part in ("q_a", "q_b", "kv")},
    "model.layers.N.self_attn.q_a_norm": "blk.N.attn_q_a_norm",
    "model.layers.N.self_attn.kv_norm": "blk.N.attn_kv_a_norm",
    **{f"model.layers.N.self_attn.o_{part}_proj": f"blk.N.attn_output_{part}" for part in "ab"},
    "model.layers.N.self_attn.sinks": "blk.N.attn_sinks.weight",
    **{
        f"model.layers.N.self_attn.compressor.{within}{theirs}": f"blk.N.{place}_compressor_{ours}"
        for within, place in (("", "attn"), ("indexer.", "indexer"))
        for theirs, ours in COMPRESSOR.items()
    },
    "model.layers.N.self_attn.compressor.indexer.q_b_proj": "blk.N.indexer.attn_q_b",
    "model.layers.N.self_attn.compressor.indexer.scorer.weights_proj": "blk.N.indexer.proj",
    **{
        f"model.layers.N.{half}_hc.{part}": f"blk.N.hc_{half}_{part}.weight"
        for half in ("attn", "ffn")
        for part in ("fn", "base", "scale")
    },
    **{f"model.hc_head.hc_{part}": f"output_hc_{part}.weight" for part in ("fn", "base", "scale")},
}
"""The tensors of MODEL_TENSORS[DEEPSEEK4] in gguf-py/gguf/constants.py, by the class's names."""

STORED = {
    "deepseek4": of("deepseek4", V4, V4_KEYS, V4_NAMES),
    "deepseek32": of("deepseek32", {"model_type": "deepseek_v32", **CONFIG}, KEYS, NAMES),
    "glm-dsa": of("glm-dsa", {"model_type": "glm_moe_dsa", **CONFIG}, KEYS, NAMES),
}
