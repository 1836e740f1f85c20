"""Gated norms of which each head has a statistic of its own."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.arith import Number
from archcli.modules.base import Conflict
from archcli.modules.recurrent.gated_norm import GatedNorm


def of_heads(norm: GatedNorm, n_heads: Number) -> GatedNorm:
    """The norm with a statistic for each head; its weights are those of all heads, one after the other."""
    return norm.replace(groups=n_heads)


def check_of_heads(norm: GatedNorm) -> Iterator[Conflict]:
    """Conflict: groups stated for a norm that is of each head."""
    if norm.groups != 1:
        yield Conflict(
            "norm-of-heads", "norm.groups", "the norm is of each head by itself", "leave groups out"
        )
