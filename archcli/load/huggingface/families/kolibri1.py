"""Kolibri: Kolibri1Config and Kolibri1ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window, window
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("kolibri1",)
PERIOD = 5
"""Of five layers, four have the window, where `layer_types` says nothing."""

WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    "[model.]layers.*.post_self_attn_layernorm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.post_attn_norm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_ffn_norm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.moe.router.expert_bias": "layers.*.ffn.route.correction_bias",
}


def mapping(config: Config) -> Mapped:
    """As EXAONE 4 with norms before and after; experts chosen by their logits, weighed by a sigmoid."""
    config = config.of_class(num_experts="num_local_experts")
    check_window(config, null=True)
    hybrid = window(config) is not None

    def heads(width: ConfigValue[int] | None) -> Mapped:
        return {"qk_norm": PER_HEAD, "position": {"kind": "none"} if hybrid and width is None else None}

    normalized = config.flag("norm_topk_prob")
    router = {"scores": "sigmoid", "ranked_by": "logits", "correction": True, "normalized": normalized}
    beside = config.count("shared_expert_intermediate_size")
    shared = gated(config, width="shared_expert_intermediate_size") if beside else None
    return llama_like(
        config,
        heads=heads,
        block={"kind": "sandwich"},
        ffn=experts(config, router=router, shared=shared),
        slides=lambda index: (index + 1) % PERIOD != 0,
    )
