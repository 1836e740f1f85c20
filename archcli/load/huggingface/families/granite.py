"""Granite 3: GraniteConfig and GraniteForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.parts.numbers import positive
from archcli.load.huggingface.value import ConfigValue, Mapped, without_none
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.weights.rules import Weights

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
    """As Llama, with factors on embeddings, scores and residuals, and a divisor of logits.

    attention_multiplier stands in place of head_dim^-0.5.
    """
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
        head=None if divisor is None else {"scale": divisor.derive(1 / divisor.value)},
    )


def _multiplier(config: Config, name: str) -> ConfigValue[float] | None:
    """A factor above 0, or None where it is 1."""
    factor = positive(config, name)
    return None if factor == 1 else factor


WEIGHTS: Weights = LLAMA
