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

DEFAULTS = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "n_group": 8,
    "topk_group": 4,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_interleave": True,
    "attention_bias": False,
}
ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """Latent attention; dense layers first, then a shared expert and routed ones.

    Experts are chosen by sigmoid scores and a correction bias.
    """
    config = config.of_class(DEFAULTS, **ALIASES)
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
    config = config.of_class(DEFAULTS, **ALIASES)
    predicting = prediction_layers(config.layers(), config.count("num_nextn_predict_layers", default=0).value)
    return {**LLAMA, **MLA, **EXPERTS, **SHARED, **CORRECTED, **predicting}
