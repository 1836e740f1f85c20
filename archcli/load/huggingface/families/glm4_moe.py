"""GLM-4.5 and 4.6: Glm4MoeConfig and Glm4MoeForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.experts import after_first, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import (
    CORRECTED,
    EXPERTS,
    LLAMA,
    QK_NORM,
    SHARED,
    prediction_layers,
)

MODEL_TYPES = ("glm4_moe",)


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, RoPE on half of each head; dense layers first, then experts as in DeepSeek-V3."""
    config = config.of_class(num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    width = head_dim(config)
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    attend = attention(
        config,
        width,
        bias=bias,
        position=rope(config, width, partial=0.5),
        qk_norm=PER_HEAD if config.flag("use_qk_norm") else None,
    )
    layer, routed = {"kind": "pre_norm", "attention": attend}, after_first(config)
    layers = some_routed(config, routed, lambda: deepseek_experts(config))([layer] * len(routed))
    mtp = multi_token_prediction(config, lambda: {**layer, "ffn": deepseek_experts(config)}, alike=routed[-1])
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def weights(config: Config) -> Weights:
    """The names of Llama with routed and shared experts, and the layers of multi-token prediction."""
    config = config.of_class()
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0)
    predicting = prediction_layers(config.layers(), depth.value)
    return {**LLAMA, **EXPERTS, **SHARED, **QK_NORM, **CORRECTED, **predicting}
