"""Arcee's Trinity: AfmoeConfig and AfmoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD, check_window
from archcli.load.huggingface.parts.experts import experts, shared_experts, some_routed
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import EXPERTS, QK_NORM, SANDWICH, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("afmoe",)
ROUTER = {"scores": "sigmoid", "correction": True, "correction_is": "parameter"}
UNREAD = """
    n_group topk_group num_expert_groups num_limited_groups route_norm score_func load_balance_coeff
    use_grouped_mm
"""
"""Keys of published files that the class does not read: it is as they say."""

WEIGHTS = {
    **SANDWICH,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    "[model.]layers.*.self_attn.gate_proj.weight": "layers.*.attention.gate_proj.weight",
    "[model.]layers.*.pre_mlp_layernorm.weight": "layers.*.ffn_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.mlp.router.gate.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.mlp.expert_bias": "layers.*.ffn.correction.weight",
}


def mapping(config: Config) -> Mapped:
    """Norms before and after, gated attention, RoPE in windows alone; shared and routed experts."""
    config = config.of_class()
    check_window(config)
    config.ignore(*UNREAD.split())
    bias, first = config.flag("attention_bias"), config.count("num_dense_layers").value

    def heads(window: ConfigValue[int] | None) -> Mapped:
        position = {"kind": "none"} if window is None else None
        return {"bias": bias, "qk_norm": PER_HEAD, "position": position, "output_gate": {"per": "channel"}}

    def sparse() -> Mapped:
        expert = gated(config, width="moe_intermediate_size")
        shared = shared_experts(config, expert, key="num_shared_experts")
        router = {**ROUTER, "scale": config.number("route_scale")}
        return experts(config, expert=expert, router=router, shared=shared)

    return llama_like(
        config,
        heads=heads,
        block={"kind": "sandwich"},
        networks=some_routed(config, [index >= first for index in range(config.layers())], sparse),
        slides=lambda index: (index + 1) % config.size("global_attn_every_n_layers").value != 0,
        embedding={"scale": "sqrt_d_model"} if config.flag("mup_enabled") else {},
    )
