"""Qwen 1.5, 2 and 2.5, and MiMo-7B: Qwen2Config and Qwen2ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, windows
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import LLAMA, PREDICTION

MODEL_TYPES = ("qwen2", "mimo")

OWN = {"sliding_window": 4096}
BIASED = ["q", "k", "v"]
"""Whatever the file says: the class knows no other."""


def mapping(config: Config) -> Mapped:
    """As Llama with biased queries, keys and values.

    Where windows are used, layers from max_window_layers on have one.
    """
    config = config.of_class(OWN, like="qwen2")
    config.ignore("attention_bias", "use_mrope")  # the class has these biases whatever the file says
    first, used = config.count("max_window_layers").value, config.flag("use_sliding_window")
    ffn, width = gated(config), head_dim(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        return {
            "kind": "pre_norm",
            "attention": attention(config, width, bias=BIASED, window=window),
            "ffn": ffn,
        }

    layers = windows(config, layer, lambda index: index >= first, used=used)
    mtp = multi_token_prediction(config, lambda: layers[-1], alike=True)
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


WEIGHTS: Weights = {**LLAMA, "model.mtp_layers.**": Auxiliary(PREDICTION)}
