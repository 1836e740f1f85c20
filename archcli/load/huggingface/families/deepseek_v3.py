"""DeepSeek-V3, R1 and Kimi K2: DeepseekV3Config and DeepseekV3ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.experts import after_first, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, SHARED, prediction_layers

MODEL_TYPES = ("deepseek_v3", "kimi_k2")

ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """Latent attention; dense layers first, then a shared expert and routed ones.

    Experts are chosen by sigmoid scores and a correction bias.
    """
    config = config.of_class(like="deepseek_v3", **ALIASES)
    config.only("moe_layer_freq", 1, default=1)
    config.only("scoring_func", "sigmoid", default="sigmoid")
    config.only("topk_method", "noaux_tc", default="noaux_tc")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    layer, routed = {"kind": "pre_norm", "attention": attention}, after_first(config)
    layers = some_routed(config, routed, lambda: deepseek_experts(config))([layer] * len(routed))
    mtp = multi_token_prediction(config, lambda: {**layer, "ffn": deepseek_experts(config)}, alike=routed[-1])
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def weights(config: Config) -> Weights:
    """The names of V2, the correction biases, and the layers of multi-token prediction."""
    config = config.of_class(like="deepseek_v3", **ALIASES)
    predicting = prediction_layers(config.layers(), config.count("num_nextn_predict_layers", default=0).value)
    return {**LLAMA, **MLA, **EXPERTS, **SHARED, **CORRECTED, **predicting}
