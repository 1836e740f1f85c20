"""Whole decoders: vocabulary, width, embedding, and layers as groups of repeated layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none

MOST_GROUPS = 1000
"""More than any model has: a file of ever different layers ends in an error, not in an endless search."""


def groups(layers: Sequence[Mapped], longest: int = 12) -> list[Mapped]:
    """The layers of a model as groups: one layer repeated, or a pattern of at most `longest` layers.

    Greedy: each group takes as many of the remaining layers as a pattern covers that repeats at least once.
    """
    numbers: dict[str, int] = {}
    # families pass the same object for equal layers: each is written out once
    by_id: dict[int, int] = {}
    for layer in layers:
        if id(layer) not in by_id:
            by_id[id(layer)] = numbers.setdefault(repr(layer), len(numbers))
    kinds = [by_id[id(layer)] for layer in layers]
    parts: list[Mapped] = []
    start = 0
    while start < len(kinds):
        covered, period = max((_covered(kinds, start, period), -period) for period in range(1, longest + 1))
        parts.append(_group(layers[start : start - period], covered))
        start += covered
        if len(parts) > MOST_GROUPS:
            raise ArchError(
                Problem(
                    f"the layers fall into more than {MOST_GROUPS:,} groups",
                    "no pattern of theirs comes twice",
                )
            )
    return parts


def _covered(kinds: Sequence[int], start: int, period: int) -> int:
    """The number of layers from `start` that repeat with this period; 0 for fewer than two repeats."""
    end = start + period
    while end < len(kinds) and kinds[end] == kinds[end - period]:
        end += 1
    return end - start if period == 1 or end - start >= 2 * period else 0


def _group(period: Sequence[Mapped], count: int) -> Mapped:
    repeated = {"layer": period[0]} if len(period) == 1 else {"pattern": list(period)}
    return {"n_layers": count, **repeated}


PLAIN = (
    "use_cache",
    "pretraining_tp",
    "attention_dropout",
    "initializer_range",
    "output_router_logits",
    "router_aux_loss_coef",
)
"""Keys that classes of decoders have and that change no count."""


def multi_token_prediction(config: Config, layer: Callable[[], Mapped], *, alike: bool) -> Mapped | None:
    """The `mtp` of a model as in DeepSeek-V3: in the checkpoint, but not in the class.

    `alike`: its layers are like the model's last.
    """
    depth = config.count("num_nextn_predict_layers", "num_mtp_layers", default=0)
    if not depth:
        return None
    return {"depth": depth} if alike else {"depth": depth, "layer": layer()}


def without_prediction(config: Config) -> None:
    """Note that layers of multi-token prediction are not counted, as no class says their shape."""
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
