"""K-EXAONE: ExaoneMoeConfig and ExaoneMoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window, window
from archcli.load.huggingface.parts.decoder import without_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("exaone_moe",)
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    "[model.]layers.*.mlp.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
}


def mapping(config: Config) -> Mapped:
    """Norms of queries and keys per head, no position where windows are beside; DeepSeek-V3's experts."""
    config = config.of_class()
    check_window(config, null=True)
    config.ignore("attention_bias", "scoring_func", "topk_method", "is_moe_layer")
    without_prediction(config)
    hybrid, routed = window(config) is not None, by_types(config, lambda: after_first(config))

    def heads(width: ConfigValue[int] | None) -> Mapped:
        return {"qk_norm": PER_HEAD, "position": {"kind": "none"} if hybrid and width is None else None}

    return llama_like(
        config,
        heads=heads,
        networks=some_routed(config, routed, lambda: deepseek_experts(config, shared="num_shared_experts")),
        slides=lambda index: (index + 1) % config.size("sliding_window_pattern").value != 0,
    )
