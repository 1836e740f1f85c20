"""Traits: what an operation is, in words and ratios that its shapes do not say."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number


class MaskTrait(NamedTuple):
    """The pattern of keys that a query sees; `window` is its window, chunk or stride, None without one."""

    kind: str
    window: Number | None = None


class Traits(NamedTuple):
    """What a listing or a drawing says of an operation besides its shapes; None for what it has none of.

    activation: the name of its function.
    norm: the kind of norm.
    rotary_share: how much of the last axis of its input is rotated, from 0 to 1.
    router_scores: what makes scores of a router's logits.
    router_groups: how many groups the experts are in, where a token may choose from some of them alone.
    """

    mask: MaskTrait | None = None
    activation: str | None = None
    norm: str | None = None
    rotary_share: Number | None = None
    router_scores: str | None = None
    router_groups: Number | None = None


NO_TRAITS = Traits()
