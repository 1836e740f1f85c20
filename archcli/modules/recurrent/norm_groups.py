"""Gated norms of heads: each head by itself, and groups that must divide the channels."""

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


def check_groups(norm: GatedNorm, channels: int, product: str) -> Iterator[Conflict]:
    """Conflict: groups that do not divide the channels, which are the product of the named fields."""
    if channels % norm.groups:
        yield Conflict(
            "norm-groups-divide-channels",
            "norm.groups",
            f"{norm.groups} groups do not divide {channels} channels ({product})",
            "each group normalizes the same number of channels",
        )
