"""InternLM of 2023, whose class is in its repositories: InternLMConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("internlm",)
OWN = {"attention_bias": None, "mlp_bias": None, "vocab_size": 103168, "bias": True}


def mapping(config: Config) -> Mapped:
    """As Llama; `bias` biases the four projections of attention, `rotary` states the base of RoPE.

    A dynamic base changes nothing within the context that the model was trained for.
    """
    config = config.of_class(OWN, like="llama")
    rotary = parameters(config, "rotary")
    heads: Mapped = {"bias": config.flag("bias")}
    if "base" in rotary:
        heads["position"] = position(config, head_dim(config), {"rope_theta": rotary["base"]})
    return llama_like(config, heads=heads)


WEIGHTS: Weights = LLAMA
