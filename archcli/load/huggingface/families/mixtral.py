"""Mixtral: MixtralConfig and MixtralForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import window
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("mixtral",)


def mapping(config: Config) -> Mapped:
    """As Mistral, with experts in every layer; the weights of the top k are normalized to sum 1."""
    config = config.of_class(num_experts="num_local_experts")
    config.restated(moe_frequency=1)
    attend = {"window": window(config)}
    return llama_like(config, heads=attend, ffn=experts(config, width="intermediate_size"))


WEIGHTS: Weights = {**LLAMA, **EXPERTS, **MIXTRAL_EXPERTS}
