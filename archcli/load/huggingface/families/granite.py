"""Granite 3: GraniteConfig and GraniteForCausalLM."""

from __future__ import annotations

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.common import attention, decoder, gated, head_dim, rmsnorm
from archcli.load.huggingface.config import Config, Mapped, without_none
from archcli.load.huggingface.names import LLAMA
from archcli.load.huggingface.weights import Weights

MODEL_TYPES = ("granite",)

DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 1.0,
    "tie_word_embeddings": False,
}


def mapping(config: Config) -> Mapped:
    """As Llama, with factors on embeddings, on scores (in place of head_dim^-0.5) and on what a layer adds, and a divisor of logits."""
    config = config.of_class(DEFAULTS)
    scale = config.number("attention_multiplier")
    layer = without_none(
        {
            "kind": "pre_norm",
            "attention": attention(config, head_dim(config), bias=config.flag("attention_bias"), scale=scale),
            "ffn": gated(config, bias=config.flag("mlp_bias")),
            "residual_multiplier": _multiplier(config, "residual_multiplier"),
        }
    )
    divisor, factor = _multiplier(config, "logits_scaling"), _multiplier(config, "embedding_multiplier")
    return decoder(
        config,
        rmsnorm(config),
        [layer] * config.layers(),
        embedding=without_none({"scale": factor}),
        head=None if divisor is None else {"scale": 1 / divisor},
    )


def _multiplier(config: Config, name: str) -> float | None:
    """A factor, or None where it is 1."""
    value = config.number(name)
    if value <= 0:
        raise ArchError(Problem(f"{config.file}: {name} must be above 0, not {value}"))
    return None if value == 1 else value


WEIGHTS: Weights = LLAMA
