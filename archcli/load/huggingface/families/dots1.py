"""dots.llm1: Dots1Config and Dots1ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window
from archcli.load.huggingface.parts.experts import after_first, deepseek_experts, some_routed
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("dots1",)
WEIGHTS = {**LLAMA, **QK_NORM, **EXPERTS, **SHARED, **CORRECTED}


def mapping(config: Config) -> Mapped:
    """As Qwen 3 with DeepSeek-V3's experts after the first layers; windows from max_window_layers on."""
    config = config.of_class(num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    check_window(config, null=True)
    config.ignore("scoring_func", "topk_method", "moe_layer_freq")
    return llama_like(
        config,
        heads={"bias": config.flag("attention_bias"), "qk_norm": PER_HEAD},
        networks=some_routed(config, after_first(config), lambda: deepseek_experts(config)),
        slides=lambda index: index >= config.count("max_window_layers").value,
    )
