"""Granite 3 with experts: GraniteMoeConfig, its Shared and SWA variants, and their ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import GRANITE_EXPERTS, LLAMA
from archcli.load.huggingface.whole.llama_like import granite_like, granite_with_windows

MODEL_TYPES = ("granitemoe", "granitemoeshared", "granitemoe_swa")


def mapping(config: Config) -> Mapped:
    """As Granite with experts, weighed by a softmax over the chosen; a shared one where it has a width.

    The one of granitemoe_swa has windows and sinks besides.
    """
    kind = config.model_type
    config = config.of_class({"mlp_bias": False}, num_experts="num_local_experts")
    wide = kind != "granitemoe" and config.count("shared_intermediate_size").value > 0
    shared = gated(config, width="shared_intermediate_size") if wide else None
    ffn = experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)
    if kind == "granitemoe_swa":
        return granite_with_windows(config, ffn=ffn)
    heads = {"bias": config.flag("attention_bias"), "scale": config.number("attention_multiplier")}
    return granite_like(config, heads=heads, ffn=ffn)


WEIGHTS: Weights = {
    **LLAMA,
    **GRANITE_EXPERTS,
    "[model.]layers.*.self_attn.sinks": "layers.*.attention.sinks.weight",
}
