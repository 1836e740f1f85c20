"""Defaults that several classes of transformers have in common, to the letter."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

GEMMA2: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
    }
)
"""Gemma2Config, VaultGemmaConfig and T5GemmaModuleConfig, without what is tied."""

GLM4: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 151552,
        "hidden_size": 4096,
        "intermediate_size": 13696,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "hidden_act": "silu",
        "max_position_embeddings": 131072,
        "rms_norm_eps": 0.00000015625,
        "attention_bias": True,
        "tie_word_embeddings": False,
    }
)
"""GlmConfig and Glm4Config."""

COHERE: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 256000,
        "hidden_size": 8192,
        "intermediate_size": 22528,
        "num_hidden_layers": 40,
        "num_attention_heads": 64,
        "hidden_act": "silu",
        "max_position_embeddings": 8192,
        "layer_norm_eps": 1e-5,
        "attention_bias": False,
        "tie_word_embeddings": True,
    }
)
"""What CohereConfig, Cohere2Config, Cohere2MoeConfig and CohereCompassTextConfig share."""
