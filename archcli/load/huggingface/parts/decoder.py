"""Whole decoders: vocabulary, width, embedding, layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.groups import groups
from archcli.load.huggingface.value import Mapped, without_none

PLAIN = (
    "use_cache",
    "pretraining_tp",
    "attention_dropout",
    "initializer_range",
    "output_router_logits",
    "router_aux_loss_coef",
)


def multi_token_prediction(config: Config, layer: Callable[[], Mapped], *, alike: bool) -> Mapped | None:
    """Multi-token prediction as in DeepSeek-V3; `alike` where each layer equals the model's last.

    The checkpoint holds them, the class does not.
    """
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0)
    if not depth:
        return None
    return {"depth": depth} if alike else {"depth": depth, "layer": layer()}


def without_prediction(config: Config) -> None:
    """Note layers of multi-token prediction of whose shape no class tells."""
    if config.count("num_nextn_predict_layers", "num_mtp_layers", default=0):
        config.note("layers of multi-token prediction (num_nextn_predict_layers) are not counted")


def decoder(config: Config, norm: Mapped, layers: list[Mapped], *, tied: bool = False, **more: Any) -> Mapped:
    """The mapping of a decoder.

    `tied` is the class's default of tie_word_embeddings; `more` are further top-level keys.
    """
    config.ignore(*PLAIN)
    embedding = {"tied": config.flag("tie_word_embeddings", default=tied), **more.pop("embedding", {})}
    depth = config.size("num_hidden_layers")
    return without_none(
        {
            "vocab_size": config.size("vocab_size"),
            "d_model": config.size("hidden_size"),
            "max_seq_len": config.optional_size("max_position_embeddings"),
            "norm": norm,
            "embedding": embedding,
            **more,
            "groups": [{**group, "n_layers": depth.derive(group["n_layers"])} for group in groups(layers)],
        }
    )
