"""EXAONE 3 and 4, and K-EXAONE."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.family import Family
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window, window
from archcli.load.huggingface.parts.decoder import without_prediction
from archcli.load.huggingface.parts.experts import after_first, by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, NORM_AFTER, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

EXAONE_OWN = {"hidden_size": 2048, "max_position_embeddings": 2048, "tie_word_embeddings": True}
EXAONE_ALIASES = {
    "num_hidden_layers": "num_layers",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
"""The words of the repositories for those of transformers' class; files have either."""


def _exaone(config: Config) -> Mapped:
    """As Llama; intermediate_size left out is four times the width."""
    config.ignore("embed_dropout")
    width = 4 * config.size("hidden_size").value
    config = config.with_defaults(intermediate_size=width)
    bias, ffn = config.flag("attention_bias"), gated(config, bias=config.flag("mlp_bias"))
    return llama_like(config, heads={"bias": bias}, ffn=ffn)


EXAONE_WEIGHTS: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]h.*.ln_1.weight": "layers.*.attention_norm.weight",
    "[transformer.]h.*.attn.attention.q_proj.weight": "layers.*.attention.q_proj.weight",
    "[transformer.]h.*.attn.attention.k_proj.weight": "layers.*.attention.k_proj.weight",
    "[transformer.]h.*.attn.attention.v_proj.weight": "layers.*.attention.v_proj.weight",
    "[transformer.]h.*.attn.attention.out_proj.weight": "layers.*.attention.o_proj.weight",
    "[transformer.]h.*.ln_2.weight": "layers.*.ffn_norm.weight",
    "[transformer.]h.*.mlp.c_fc_0.weight": "layers.*.ffn.gate_proj.weight",
    "[transformer.]h.*.mlp.c_fc_1.weight": "layers.*.ffn.up_proj.weight",
    "[transformer.]h.*.mlp.c_proj.weight": "layers.*.ffn.down_proj.weight",
    "[transformer.]ln_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


def _exaone4(config: Config) -> Mapped:
    """As OLMo 2 with norms per head; where layers have windows, the others have no position."""
    check_window(config, null=True)
    config.ignore("attention_bias")  # the class has none whatever the file says
    hybrid = window(config) is not None

    def heads(width: ConfigValue[int] | None) -> Mapped:
        return {"qk_norm": PER_HEAD, "position": {"kind": "none"} if hybrid and width is None else None}

    return llama_like(
        config, heads=heads, block={"kind": "norm_after"}, slides=lambda i: _exaone4_slides(config, i)
    )


def _exaone4_slides(config: Config, index: int) -> bool:
    """Whether a layer has the window where `layer_types` says nothing: all but each fourth."""
    return (index + 1) % config.size("sliding_window_pattern").value != 0


EXAONE_MOE_WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    "[model.]layers.*.mlp.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
}


def _exaone_moe(config: Config) -> Mapped:
    """Norms of queries and keys per head, no position where windows are beside; DeepSeek-V3's experts."""
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


FAMILIES = {
    "exaone": Family(
        "EXAONE 3.0 and 3.5, by the class of their repositories or by that of transformers, ExaoneConfig.",
        _exaone,
        EXAONE_WEIGHTS,
        aliases=EXAONE_ALIASES,
        defaults=EXAONE_OWN,
    ),
    "exaone4": Family("EXAONE 4.0: Exaone4Config and Exaone4ForCausalLM.", _exaone4, NORM_AFTER),
    "exaone_moe": Family(
        "K-EXAONE: ExaoneMoeConfig and ExaoneMoeForCausalLM.", _exaone_moe, EXAONE_MOE_WEIGHTS
    ),
}
