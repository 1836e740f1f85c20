"""Solar Open: SolarOpenConfig and SolarOpenForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.experts import deepseek_experts
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("solar_open",)
WEIGHTS = {**LLAMA, **EXPERTS, **SHARED, **CORRECTED}


def mapping(config: Config) -> Mapped:
    """As Llama with DeepSeek-V3's experts in every layer."""
    config = config.of_class(num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    config.ignore("intermediate_size", "first_k_dense_replace", "use_qk_norm")
    config.only("partial_rotary_factor", 1, default=1)  # with a part of each head the class cannot run
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    return llama_like(config, heads={"bias": bias}, ffn=deepseek_experts(config))
