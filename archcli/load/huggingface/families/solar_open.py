"""Solar Open: SolarOpenConfig and SolarOpenForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.experts import deepseek_experts
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("solar_open",)
DEFAULTS = {
    "vocab_size": 196608,
    "hidden_size": 4096,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "moe_intermediate_size": 1280,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "n_routed_experts": 128,
    "routed_scaling_factor": 1.0,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
}
WEIGHTS = {**LLAMA, **EXPERTS, **SHARED, **CORRECTED}


def mapping(config: Config) -> Mapped:
    """As Llama with DeepSeek-V3's experts in every layer."""
    config = config.of_class(DEFAULTS, num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    config.ignore("intermediate_size", "first_k_dense_replace", "use_qk_norm")
    config.only("partial_rotary_factor", 1, default=1)  # with a part of each head the class cannot run
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    return llama_like(config, heads={"bias": bias}, ffn=deepseek_experts(config))
