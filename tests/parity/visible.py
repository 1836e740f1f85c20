"""Mutants that change which keys a query sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.modules.spec.base import Spec
from parity.alterations import altered, to


def visibility(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A window or chunk for a causal layer that has none."""
    if spec.causal and spec.window is None and spec.chunk is None and not chooses(spec):
        yield f"{field}=7", altered(spec, **{field: 7})


def chooses(spec: Any) -> bool:
    """Whether an indexer or a gate says which keys are seen, whatever other fields say."""
    return any(getattr(spec, field, None) is not None for field in ("index", "value_gate"))


def causality(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Every token sees every other, or only those before.

    A window, chunk or pattern is causal or not whatever else is said.
    """
    if spec.window is None and spec.chunk is None and spec.sparsity is None and not chooses(spec):
        yield from to(True, False)(spec, field)
