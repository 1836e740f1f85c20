"""Defaults that several classes of transformers have in common, and the sinusoids of fairseq."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped

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


BASE = 10000.0


def fairseq_sinusoid(config: Config, offset: int, **more: Any) -> Mapped:
    """The sinusoid of position + offset, its h = hidden_size / 2 frequencies 10000^(-i/(h-1)).

    In the usual form base^(-i/h) the base is 10000^(h/(h-1)).
    """
    width = config.size("hidden_size", "d_model")
    half = width.value // 2
    if width.value % 2 or half == 1:
        raise config.error(
            f"a sinusoid cannot be {width} wide here", "an even width of at least 4", width.place
        )
    position = {"kind": "sinusoidal", "pairing": "half", "base": BASE ** (half / (half - 1)), **more}
    return position | ({"offset": offset} if offset else {})
