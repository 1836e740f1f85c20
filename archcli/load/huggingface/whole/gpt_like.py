"""Decoders of GPT-2's kind: keys such as n_embd and n_head, layers of MHA and an ungated network."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder

GPT_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }
)

SUMMARY = ("summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj")
"""Keys of a classifier's head, which files of language models have too and their classes do not read."""


def inner_width(config: Config, name: str = "n_inner") -> ConfigValue[int]:
    """The width of the feed-forward network; missing or null means 4 hidden_size."""
    width = config.size("hidden_size")
    return config.size(name, default=width.derive(4 * width.value))


def post_norm_decoder(
    config: Config,
    norm: Mapped,
    ffn: Mapped,
    *,
    normed: bool = False,
    held: Mapping[str, Any] | None = None,
    **more: Any,
) -> Mapped:
    """Post-norm without a final norm, biased MHA, learned positions: GPT of 2018, or BERT as a decoder.

    `normed`: a norm follows the embeddings. `held` are parameters of each layer that no pass of text reads.
    """
    attend = {"kind": "mha", "n_heads": config.size("num_attention_heads"), "bias": True}
    layer = {"kind": "post_norm", "attention": attend, "ffn": ffn, "unread": held}
    embedding = {"position": {"kind": "learned"}, **({"norm": norm} if normed else {})}
    layers = [without_none(layer)] * config.layers()
    return decoder(config, norm, layers, embedding=embedding, final_norm=False, **more)
