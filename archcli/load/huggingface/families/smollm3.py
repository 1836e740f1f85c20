"""SmolLM 3: SmolLM3Config and SmolLM3ForCausalLM."""

from __future__ import annotations

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.common import (
    FULL,
    SLIDING,
    attention,
    decoder,
    gated,
    head_dim,
    layer_types,
    rmsnorm,
    window,
)
from archcli.load.huggingface.config import Config, Mapped
from archcli.load.huggingface.names import LLAMA
from archcli.load.huggingface.weights import Weights

MODEL_TYPES = ("smollm3",)

DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 2000000.0,
    "use_sliding_window": False,
    "no_rope_layer_interval": 4,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
}


def mapping(config: Config) -> Mapped:
    """As Llama, with no position in every fourth layer. In spite of its name, no_rope_layers is 1 where RoPE is used."""
    config = config.of_class(DEFAULTS)
    config.ignore("max_window_layers")
    count, interval = config.layers(), config.size("no_rope_layer_interval")
    turned = config.per_layer("no_rope_layers", count) or [
        int((index + 1) % interval != 0) for index in range(count)
    ]
    width = window(config) if config.flag("use_sliding_window") else None
    types = layer_types(config, [SLIDING if width and not turns else FULL for turns in turned])
    if width is None and SLIDING in types:
        raise ArchError(
            Problem(
                f"{config.file}: layer_types names {SLIDING}, but there is no window",
                "state use_sliding_window and sliding_window",
            )
        )
    kinds = [(bool(turns), kind == SLIDING) for turns, kind in zip(turned, types, strict=True)]
    made = {
        (turns, slides): _layer(config, turns=turns, width=width if slides else None)
        for turns, slides in dict.fromkeys(kinds)
    }
    return decoder(config, rmsnorm(config), [made[kind] for kind in kinds])


def _layer(config: Config, *, turns: bool, width: int | None) -> Mapped:
    """One layer, with RoPE or without any position."""
    bias, place = config.flag("attention_bias"), None if turns else {"kind": "none"}
    attend = attention(config, head_dim(config), bias=bias, position=place, window=width)
    return {"kind": "pre_norm", "attention": attend, "ffn": gated(config, bias=config.flag("mlp_bias"))}


WEIGHTS: Weights = LLAMA
