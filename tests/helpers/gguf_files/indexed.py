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

STORED = {
    "deepseek32": of("deepseek32", {"model_type": "deepseek_v32", **CONFIG}, KEYS, NAMES),
    "glm-dsa": of("glm-dsa", {"model_type": "glm_moe_dsa", **CONFIG}, KEYS, NAMES),
}
