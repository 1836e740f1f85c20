"""Mutants of what encoder-decoders alone have: cross attention, and a norm of tokens before positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.modules.spec.base import Spec
from parity.alterations import Alteration, dropped, to


def without_cross(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Without cross attention, where it runs."""
    return iter(()) if getattr(spec.cross_attention, "idle", False) else dropped(spec, field)


def norm_of_tokens(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The embedding's norm on the other side of the position."""
    if spec.norm is not None and spec.position.acts_on == "embedding":
        yield from to(True, False)(spec, field)


def of_vectors(alteration: Alteration) -> Alteration:
    """The alteration of an encoder that is given vectors; one with an embedding of its own has none."""

    def changed(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
        return alteration(spec, field) if spec.embedding is None else iter(())

    return changed
