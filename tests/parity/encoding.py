"""Mutants of what encoders alone have: a pooler, a head that guesses masked words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.spec.base import Spec, find
from parity.alterations import Alteration, dropped, nothing, off, plus, times, to


def pooled(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Another function of what is pooled, where anything is."""
    return to(m.Sigmoid())(spec, field) if spec.pooler and spec.pooler_dense else iter(())


def transformed(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A transform without its bias, where there is one."""
    return off(spec, field) if spec.transform and spec.bottleneck is None else iter(())


def kept_bias(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Without the bias of values or of the result; those of queries and keys may be shared with positions."""
    return to(("q", "k", "o"), ("q", "k", "v"))(spec, field)


def idle(path: str, part: Any) -> set[str]:
    """What no pass runs.

    A layer that only holds parameters, or reads images, of which a text has none; an idle cross attention,
    what a head without a transform states and does not use.
    """
    if isinstance(part, m.Block) and part.reads_media:
        return {inner for inner, _ in find(part, Spec, path)}
    if isinstance(part, m.Block) and part.mixing is None and part.ffn is None:
        return {path, f"{path}.norm"}
    if getattr(part, "idle", False):
        return {path}
    if not isinstance(part, m.MaskedHead) or (part.transform and part.bottleneck is None):
        return set()
    return {f"{path}.norm"} if part.transform else {f"{path}.norm", f"{path}.activation"}


ENCODER_PARTS: dict[type[Spec], dict[str, Alteration]] = {
    m.MaskedHead: {"bias": off, "transform_bias": transformed},
    m.Encoder: {"pooler_activation": pooled},
    m.WindowedGlobal: {"window": plus(2, -2), "n_global": nothing},
    m.DisentangledAttention: {"max_distance": times(0.8), "bias": kept_bias},
    m.RelativeTable: {"norm": dropped},
}
