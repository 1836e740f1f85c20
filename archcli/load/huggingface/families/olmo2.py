"""OLMo 2: Olmo2Config and Olmo2ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import NORM_AFTER

MODEL_TYPES = ("olmo2",)


def mapping(config: Config) -> Mapped:
    """Norms after attention and feed-forward, inside the residual; a norm over all queries or keys."""
    config = config.of_class()
    config.ignore("use_qk_norm")  # the class has these norms whatever the file says
    layer = {
        "kind": "norm_after",
        "attention": attention(
            config, head_dim(config), bias=config.flag("attention_bias"), qk_norm={"per": "full"}
        ),
        "ffn": gated(config),
    }
    return decoder(config, rmsnorm(config), [layer] * config.layers())


WEIGHTS: Weights = NORM_AFTER
