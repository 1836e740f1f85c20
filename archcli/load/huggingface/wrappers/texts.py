"""Text parts by model_type whose classes are those of a family but for defaults."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.huggingface.wrappers.wrapper import TextClass

QWEN2_VL = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "max_window_layers": 80,
    "rope_theta": 1000000.0,
}
QWEN3_VL = {"max_position_embeddings": 128000, "rope_theta": 500000.0}

QWEN2_5_OMNI = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "sliding_window": 32768,
    "rope_theta": 1000000.0,
}
QWEN3_VL_MOE = {
    **QWEN3_VL,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "moe_intermediate_size": 1408,
    "num_experts_per_tok": 4,
    "num_experts": 60,
}
QWEN3_OMNI_MOE = {
    "vocab_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "rope_theta": 1000000.0,
    "norm_topk_prob": True,
}
EMU3 = {
    "vocab_size": 184622,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 9216,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
}
GLM4V = {"max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0}
GLM_OCR = {
    "vocab_size": 59392,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "partial_rotary_factor": 1.0,
    "head_dim": None,
}
GLM4V_MOE = {"vocab_size": 151424, "max_position_embeddings": 65536, "attention_bias": True}
GRANITE_DOCLING = {
    "vocab_size": 133800,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "embedding_multiplier": 12.0,
    "logits_scaling": 4.0,
    "residual_multiplier": 0.263,
    "attention_multiplier": 0.015625,
}
EXPERTS = {"num_local_experts": "num_experts"}
NO_WINDOW = {"use_sliding_window": False, "sliding_window": None}

TEXTS: Mapping[str, TextClass] = {
    "emu3_text_model": TextClass("llama", EMU3),
    "glm4v_text": TextClass("glm4", GLM4V, {"attention_bias": True, "head_dim": None}),
    "glm4v_moe_text": TextClass("glm4_moe", GLM4V_MOE, {"use_qk_norm": False}),
    "glm_ocr_text": TextClass("glm4", GLM_OCR, {"attention_bias": False}),
    "granite_docling_text": TextClass("granite", GRANITE_DOCLING),
    "qwen2_vl_text": TextClass("qwen2", QWEN2_VL),
    "qwen2_5_vl_text": TextClass("qwen2", QWEN2_VL),
    "qwen2_5_omni_text": TextClass("qwen2", QWEN2_5_OMNI),
    "qwen3_vl_text": TextClass("qwen3", QWEN3_VL),
    "qwen3_vl_moe_text": TextClass("qwen3_moe", QWEN3_VL_MOE, {"norm_topk_prob": True, **NO_WINDOW}, EXPERTS),
    "qwen3_omni_moe_text": TextClass("qwen3_moe", QWEN3_OMNI_MOE, NO_WINDOW),
}

RENAMED = {"exaone4_5_text": "exaone4"}
"""Types of text parts for which the wrapper's class takes a family's."""
