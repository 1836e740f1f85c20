"""What disturbed the plain passes: figures for JSON, lines of the quality table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.measure.profile.schema.base import DisturbanceFigures
from archcli.measure.report import Unit
from archcli.recording.disturbance import Disturbance

NAMES: Mapping[str, tuple[str, Unit]] = {
    "others": ("processors that other processes kept busy", "text"),
    "stolen": ("processors that the host of this virtual machine took", "text"),
    "waited_share": ("threads waiting for a processor, of their time", "share"),
    "spread": ("plain wall, middle half of the passes, of the median", "share"),
}
"""Lines of the quality table by JSON key."""


def disturbance_figures(seen: Disturbance) -> DisturbanceFigures:
    """The disturbance of the plain passes as a JSON record."""
    return {
        "processors": seen.processors,
        "others": seen.others,
        "stolen": seen.stolen,
        "waited_share": seen.waited_share,
        "spread": seen.spread,
    }


def disturbance_facts(figures: Mapping[str, Any]) -> Iterator[tuple[str, Any, Unit]]:
    """The lines of the quality table that the system has figures for."""
    for key, (name, unit) in NAMES.items():
        value = figures.get(key)
        if value is not None:
            yield name, f"{value:.2f} of {figures['processors']}" if unit == "text" else value, unit
