"""OLMo 3: Olmo3Config and Olmo3ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, SLIDING, attention, head_dim, windows
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import parameters, position
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import NORM_AFTER

MODEL_TYPES = ("olmo3",)
PERIOD = 4
"""Of four layers, three have the window, where `layer_types` says nothing."""

OWN = {"rope_theta": 500000.0}


def mapping(config: Config) -> Mapped:
    """OLMo 2 with windows; `rope_scaling` stretches the RoPE of the layers without a window alone."""
    config = config.of_class(OWN)
    width, ffn = head_dim(config), gated(config)
    near = position(config, width, parameters(config, "rope_parameters", SLIDING))
    far = position(
        config,
        width,
        {**parameters(config, "rope_parameters", FULL), **parameters(config, "rope_scaling")},
    )

    def layer(window: ConfigValue[int] | None) -> Mapped:
        attend = attention(
            config,
            width,
            bias=config.flag("attention_bias"),
            position=far if window is None else near,
            qk_norm={"per": "full"},
            window=window,
        )
        return {"kind": "norm_after", "attention": attend, "ffn": ffn}

    return decoder(config, rmsnorm(config), windows(config, layer, lambda index: (index + 1) % PERIOD != 0))


WEIGHTS: Weights = NORM_AFTER
