"""Granite 3 with experts: GraniteMoeConfig, GraniteMoeSharedConfig and their ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.multipliers import GRANITE_DEFAULTS, granite_like
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import GRANITE_EXPERTS, LLAMA
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("granitemoe", "granitemoeshared")
DEFAULTS = {**GRANITE_DEFAULTS, "num_local_experts": 8, "num_experts_per_tok": 2}
SHARED = {"shared_intermediate_size": 0}


def mapping(config: Config) -> Mapped:
    """As Granite with experts, weighed by a softmax over the chosen; a shared one where it has a width."""
    shares = config.model_type != "granitemoe"
    config = config.of_class({**DEFAULTS, **(SHARED if shares else {})}, num_experts="num_local_experts")
    heads = {"bias": config.flag("attention_bias"), "scale": config.number("attention_multiplier")}
    wide = shares and config.count("shared_intermediate_size").value > 0
    shared = gated(config, width="shared_intermediate_size") if wide else None
    router = {"scores": "softmax_after"}
    ffn = experts(config, width="intermediate_size", router=router, shared=shared)
    return granite_like(config, heads=heads, ffn=ffn)


WEIGHTS: Weights = {**LLAMA, **GRANITE_EXPERTS}
