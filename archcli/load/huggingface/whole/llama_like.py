"""Decoders of Llama's kind: alike layers of grouped-query attention with RoPE and a gated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import gated
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.parts.windows import windows
from archcli.load.huggingface.value import ConfigValue, Mapped, without_none

NOTHING: Mapping[str, Any] = MappingProxyType({})

Networks = Callable[[list[Mapped]], list[Mapped]]
"""What gives layers their feed-forward part, which need not be the same in all."""

Heads = Mapping[str, Any] | Callable[[ConfigValue[int] | None], Mapping[str, Any]]
"""Options of `attention`, or what gives those of a layer with this sliding window, or with none."""

LLAMA_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
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
        "tie_word_embeddings": False,
    }
)
"""The defaults of LlamaConfig, for classes that differ from it in some."""


def llama_defaults(*left_out: str, **others: Any) -> Mapped:
    """The defaults of LlamaConfig without some, and with others."""
    return {key: value for key, value in LLAMA_DEFAULTS.items() if key not in left_out} | others


def llama_like(
    config: Config,
    *,
    heads: Heads = NOTHING,
    block: Mapping[str, Any] = NOTHING,
    ffn: Mapped | None = None,
    networks: Networks | None = None,
    norm: Mapped | None = None,
    slides: Callable[[int], bool] | None = None,
    **more: Any,
) -> Mapped:
    """Pre-norm, RMSNorm, GQA with RoPE, SwiGLU; what is given replaces a part.

    `heads` are options of `attention`, `block` further keys of a layer, `more` those of the model. `networks`
    gives the layers a feed-forward part where they have not all the same. `slides`
    tells by a layer's index whether it has the sliding window, where `layer_types` does not; left out, no
    layer has one.
    """
    width = head_dim(config)
    if networks is None and ffn is None:
        ffn = gated(config)

    def layer(window: ConfigValue[int] | None) -> Mapped:
        options = heads(window) if callable(heads) else heads
        attend = attention(config, width, **{"window": window, **options})
        return without_none({"kind": "pre_norm", "attention": attend, "ffn": ffn, **block})

    layers = [layer(None)] * config.layers() if slides is None else windows(config, layer, slides)
    layers = layers if networks is None else networks(layers)
    return decoder(config, rmsnorm(config) if norm is None else norm, layers, **more)
