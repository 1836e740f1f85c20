"""Values as text: exact (8,030,261,248) or short (8.03B), bytes as GiB, shares in percent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from archcli.errors import sanitize
from archcli.units import COUNTS, COUNTS_FROM, FOUR_FIGURES, binary_bytes, scaled, short_flops

if TYPE_CHECKING:
    from archcli.measure.report import Unit


NOTHING = "-"
TWOFOLD = {"count", "flops", "macs", "bytes"}
"""Units that show the exact figure and the short one side by side."""
SHORT_ALONE = {"share", "ratio", "seconds", "gflop", "millions", "fine_share"}
"""Units that show the short figure alone."""
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def exact(value: Any, unit: Unit) -> str:
    """The exact value: integers with all digits, in groups of three."""
    if value is None:
        return NOTHING
    # before ints, as a bool is one
    if isinstance(value, bool):
        return "✓" if value else "✗"
    if unit == "bits":
        return f"{value:.4g}"
    if unit in SHORT_ALONE:
        return short(value, unit)
    # a year has no comma
    if isinstance(value, int) and unit != "date":
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else sanitize(str(value))


def short(value: Any, unit: Unit) -> str:
    """The value to three figures with its unit; empty where `exact` is as short."""
    figure = isinstance(value, int | float) and not isinstance(value, bool)
    return SHORT[unit](value) if figure and unit in SHORT and (value or unit not in TWOFOLD) else ""


def _seconds(value: float) -> str:
    if abs(value) >= FOUR_FIGURES:
        return f"{value:,.0f} s"
    size, name = next(((size, name) for size, name in SECONDS if abs(value) >= size), SECONDS[-1])
    return f"{value / size:.3g} {name}"


def _count(value: float) -> str:
    return scaled(value, 1000, COUNTS) if value >= COUNTS_FROM else ""


def _ratio(value: float) -> str:
    return f"{value:,.0f}x" if value >= FOUR_FIGURES else f"{value:.3g}x"


SHORT: dict[Unit, Callable[[float], str]] = {
    "count": _count,
    "flops": short_flops,
    "macs": lambda value: short_flops(value, "MAC"),
    "bytes": binary_bytes,
    "share": lambda value: f"{100 * value:.1f}%",
    "ratio": _ratio,
    "seconds": _seconds,
    "gflop": lambda value: f"{value / 1e9:,.3f}",
    "millions": lambda value: f"{value / 1e6:,.2f}",
    "fine_share": lambda value: f"{100 * value:.2f}%",
}
