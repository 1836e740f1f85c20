"""What an engine takes memory for besides weights, cache and the tensors of a pass, by its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archcli.measure.kvcache.engine import InferenceEngine
from archcli.units import parse_bytes

BY_HEAD = "by head"
"""The fact of an engine whose indexer holds the scores of each head."""
WHOLE = 1 << 62
"""Bytes of scores beyond any pass: they are held whole."""


@dataclass(frozen=True, slots=True)
class Reserves:
    """What an engine reserves.

    scores: the most bytes of an indexer's scores at once; None holds those of each head.
    """

    scores: int | None = WHOLE


USUAL = Reserves()
"""What engines have in common."""


def reserves_of(engine: InferenceEngine) -> Reserves:
    """What an engine reserves; of one without facts the usual."""
    return engine.reserves or USUAL


def read_reserves(facts: Mapping[str, Any], memory_bytes: int | None) -> Reserves:
    """What an engine reserves on a device with so much memory, by the facts of its file."""
    return Reserves(_scores(facts.get("indexer_scores"), memory_bytes))


def _scores(most: str | float | None, memory_bytes: int | None) -> int | None:
    """The bytes of a bound such as 512MiB, of a share of the memory, or of none."""
    if most == BY_HEAD:
        return None
    if isinstance(most, str) and most != "whole":
        return parse_bytes(most)
    return int(most * memory_bytes) if isinstance(most, float) and memory_bytes else WHOLE
