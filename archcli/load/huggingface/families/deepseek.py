"""DeepSeekMoE of 2024, whose class is in its repository: DeepseekConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts, normalized_by, shared_experts, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, SHARED

MODEL_TYPES = ("deepseek",)
OWN = {
    "mlp_bias": None,
    "vocab_size": 102400,
    "num_hidden_layers": 30,
    "moe_intermediate_size": 1407,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 0,
    "norm_topk_prob": False,
    "scoring_func": "softmax",
}
ALIASES = {"num_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """MHA or GQA; fine-grained experts beside shared ones, the first layers dense; dense without experts."""
    config = config.of_class(OWN, like="llama", **ALIASES)
    config.only("scoring_func", "softmax")
    width = head_dim(config)
    attend = attention(config, width, bias=config.flag("attention_bias"))
    layers = [{"kind": "pre_norm", "attention": attend}] * config.layers()
    return decoder(
        config,
        rmsnorm(config),
        with_networks(layers, _routed(config), lambda: gated(config), lambda: _experts(config)),
    )


def _routed(config: Config) -> list[bool]:
    """Which layers have experts."""
    config.ignore("num_experts_per_tok", "n_shared_experts")
    first, step = config.count("first_k_dense_replace").value, config.size("moe_layer_freq").value
    has_experts = config.get("num_experts", default=None) is not None
    return [has_experts and index >= first and index % step == 0 for index in range(config.layers())]


def _experts(config: Config) -> Mapped:
    expert = gated(config, width="moe_intermediate_size")
    shared = (
        shared_experts(config, expert) if config.get("n_shared_experts", default=None) is not None else None
    )
    return experts(config, expert=expert, router=normalized_by(config), shared=shared)


WEIGHTS: Weights = {**LLAMA, **EXPERTS, **SHARED}
