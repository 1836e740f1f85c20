"""EXAONE 3 and 4, K-EXAONE, and Kolibri, whose layers are those of EXAONE 4 with experts."""

from __future__ import annotations

from collections.abc import Callable

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.llama_like import Heads, llama_like

EXAONE_ALIASES = {
    "num_hidden_layers": "num_layers",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
"""Keys of transformers' class, and of the classes in the repositories; files have either."""


def _exaone(config: Config) -> Mapped:
    """As Llama; intermediate_size left out is four times the width."""
    config.ignore("embed_dropout")
    return llama_like(config.with_defaults(intermediate_size=4 * config.size("hidden_size").value))


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
    hf.check_window(config, null=True)
    config.ignore("attention_bias")  # the class has none whatever the file says
    block, heads = {"kind": "norm_after"}, _heads_beside_windows(config)
    return llama_like(config, heads=heads, block=block, slides=_slides_by_pattern(config))


def _heads_beside_windows(config: Config) -> Heads:
    """Normalized queries and keys; where layers have windows, those without one have no position."""
    is_hybrid = hf.window(config) is not None

    def heads(width: ConfigValue[int] | None) -> Mapped:
        return {"qk_norm": hf.PER_HEAD, "position": {"kind": "none"} if is_hybrid and width is None else None}

    return heads


def _slides_by_pattern(config: Config) -> Callable[[int], bool]:
    """A function of a layer's index: whether it has the window by sliding_window_pattern."""
    return lambda index: (index + 1) % config.size("sliding_window_pattern").value != 0


EXAONE_MOE_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    "[model.]layers.*.mlp.e_score_correction_bias": "layers.*.ffn.route.correction_bias",
}


def _exaone_moe(config: Config) -> Mapped:
    """EXAONE 4's attention in pre-norm layers, with DeepSeek-V3's experts."""
    hf.check_window(config, null=True)
    config.ignore("attention_bias", "scoring_func", "topk_method", "is_moe_layer")
    hf.without_prediction(config)
    routed = hf.by_types(config, lambda: hf.after_first(config))
    return llama_like(
        config,
        heads=_heads_beside_windows(config),
        networks=hf.some_routed(
            config, routed, lambda: hf.deepseek_experts(config, shared="num_shared_experts")
        ),
        slides=_slides_by_pattern(config),
    )


KOLIBRI1_PERIOD = 5
"""Of five layers, four have the window, where `layer_types` says nothing."""

KOLIBRI1_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    "[model.]layers.*.post_self_attn_layernorm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.post_attn_norm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_ffn_norm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.moe.router.expert_bias": "layers.*.ffn.route.correction_bias",
}


def _kolibri1(config: Config) -> Mapped:
    """EXAONE 4 with sandwich norms; experts chosen by their logits and weighed by a sigmoid."""
    hf.check_window(config, null=True)
    normalized = config.flag("norm_topk_prob")
    router = {"scores": "sigmoid", "ranked_by": "logits", "correction": True, "normalized": normalized}

    return llama_like(
        config,
        heads=_heads_beside_windows(config),
        block={"kind": "sandwich"},
        ffn=hf.experts(config, router=router, shared=hf.wide_shared_expert(config)),
        slides=lambda index: (index + 1) % KOLIBRI1_PERIOD != 0,
    )


FAMILIES = {
    "exaone": Family(
        "EXAONE 3.0 and 3.5, by the class of their repositories or by that of transformers, ExaoneConfig.",
        _exaone,
        EXAONE_WEIGHTS,
        aliases=EXAONE_ALIASES,
        defaults={"hidden_size": 2048, "max_position_embeddings": 2048, "tie_word_embeddings": True},
    ),
    "exaone4": Family("EXAONE 4.0: Exaone4Config and Exaone4ForCausalLM.", _exaone4, hf.NORM_AFTER),
    "exaone_moe": Family(
        "K-EXAONE: ExaoneMoeConfig and ExaoneMoeForCausalLM.", _exaone_moe, EXAONE_MOE_WEIGHTS
    ),
    "kolibri1": Family(
        "Kolibri: Kolibri1Config and Kolibri1ForCausalLM.",
        _kolibri1,
        KOLIBRI1_WEIGHTS,
        aliases={"num_experts": "num_local_experts"},
    ),
}
