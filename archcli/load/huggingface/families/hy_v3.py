"""Hunyuan 3: HYV3Config and HYV3ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import PER_HEAD
from archcli.load.huggingface.parts.decoder import without_prediction
from archcli.load.huggingface.parts.experts import by_types, experts, with_networks
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, QK_NORM, SHARED
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("hy_v3",)
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **SHARED,
    "[model.]layers.*.mlp.router.gate.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.{name}": "layers.*.ffn.route.correction_bias"
        for name in ("expert_bias", "e_score_correction_bias")
    },
    **{
        f"[model.]layers.*.mlp.shared_mlp.{name}_proj.*": f"layers.*.ffn.shared.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
}


def mapping(config: Config) -> Mapped:
    """Norms of queries and keys per head; a dense layer, then experts by sigmoid scores and a correction."""
    config = config.of_class(num_local_experts="num_experts")
    config.ignore("enable_moe_fp32_combine", "first_k_dense_replace")
    without_prediction(config)
    bias = config.flag("mlp_bias")

    def dense() -> Mapped:
        return gated(config, bias=bias)

    def sparse() -> Mapped:
        router = {"scores": "sigmoid", "scale": config.number("router_scaling_factor"), "correction": True}
        width, number = config.size("moe_intermediate_size"), config.count("num_shared_experts")
        shared = {**dense(), "d_ff": width.derive(number.value * width.value)} if number else dense()
        return experts(config, router=router, shared=shared)

    routed = by_types(config, lambda: [index > 0 for index in range(config.layers())])
    return llama_like(
        config,
        heads={"bias": config.flag("attention_bias"), "qk_norm": PER_HEAD},
        networks=lambda layers: with_networks(layers, routed, dense, sparse),
    )
