"""Mutants of recurrent mixers, and of what such mixers have around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.base import Spec
from parity.alterations import Alteration, dropped, nothing, off, times


def unless_one(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A factor that the model has, multiplied."""
    return times(1.1)(spec, field) if getattr(spec, field) != 1.0 else iter(())


RECURRENT_PARTS: dict[type[Spec], dict[str, Alteration]] = {
    m.Mixer: {"in_multiplier": unless_one, "out_multiplier": unless_one},
    m.Mamba: {"bias": off, "conv_bias": off, "dt_norm": dropped},
    m.ShortConvolution: {"bias": off, "conv_bias": off, "conv_kernel": nothing},
}
