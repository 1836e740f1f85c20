"""A device that nobody has listed, in one line: 24GB, 1008GB/s, 165TFLOP/s."""

from __future__ import annotations

import re
from typing import NamedTuple

from archcli.errors import ArchError, quote
from archcli.units import parse_bytes

EXAMPLE = "24GB, 1008GB/s, 165TFLOP/s"
RATE = re.compile(r"\d\s*(?:[KMGTP]i?B(?:/s(?:ec)?|ps)\b|[GTP](?:FLOP|OP))", re.IGNORECASE)
"""What tells a line from a name: an amount a second."""
DTYPES = "bf16|fp16|fp8|fp4|int8|tf32|fp32"
FIGURE = re.compile(
    rf"(?:(?P<dtype>{DTYPES})\s*:?\s*)?"
    r"(?P<amount>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s*"
    r"(?P<unit>[KMGT]i?B(?:/s(?:ec)?|ps)?(?![a-z])|[GTP](?:FLOPS?|OPS?)(?:/s(?:ec)?)?(?![a-z]))"
    # the dtype of the figure before, 165TFLOP/s bf16, and not of that behind
    rf"(?:\s*(?:(?:in|of)\s+)?(?P<after>{DTYPES})\b(?!\s*:?\s*\d))?",
    re.IGNORECASE,
)
BETWEEN = re.compile(r"[\s,;+]*(?:(?:of|v?ram|memory|bandwidth|dense|and|at|with)\b[\s,;+]*)*", re.IGNORECASE)
POWERS = {"g": 1e9, "t": 1e12, "p": 1e15}
KEYS = {"int8": "int8_tops"}


class StatedFigure(NamedTuple):
    """A figure of a line: its key in a datasheet, and its value."""

    key: str
    value: float


def is_line(text: str) -> bool:
    """Whether a text states figures rather than names a device: it has an amount a second."""
    return RATE.search(text) is not None


def figures_of(text: str) -> dict[str, float]:
    """The figures of a line by the keys of a datasheet, in any order.

    Raises ArchError for anything else in it, for a figure said twice, and where it states no memory.
    """
    figures: dict[str, float] = {}
    end = 0
    for match in FIGURE.finditer(text):
        _check_between(text, text[end : match.start()])
        end = match.end()
        figure = _figure(match)
        if figure.key in figures:
            raise ArchError(f"{quote(text)} says {figure.key} twice", f"such as '{EXAMPLE}'")
        # whole numbers are printed as such
        figures[figure.key] = int(figure.value) if figure.value == int(figure.value) else figure.value
    _check_between(text, text[end:])
    if "memory_bytes" not in figures:
        raise ArchError(f"{quote(text)} states no memory", f"such as '{EXAMPLE}'")
    return figures


def _check_between(text: str, between: str) -> None:
    if not BETWEEN.fullmatch(between):
        what = f"{quote(between.strip(' ,;'))} in {quote(text)} is no figure of a device"
        raise ArchError(what, f"such as '{EXAMPLE}', fp8 330TFLOP/s")


def _figure(match: re.Match[str]) -> StatedFigure:
    """The figure of a match. Raises ArchError for an amount of nothing."""
    amount, unit = match["amount"].replace(",", ""), match["unit"].lower()
    dtype = (match["dtype"] or match["after"] or "").lower()
    if float(amount) <= 0:
        raise ArchError(f"{match[0].strip()} is nothing", f"such as '{EXAMPLE}'")
    if "op" in unit:
        dtype = dtype or ("bf16" if "flop" in unit else "int8")
        rate = float(amount) * POWERS[unit[0]] / 1e12
        return StatedFigure(KEYS.get(dtype, f"{dtype}_tflops"), rate)
    size = parse_bytes(amount + unit.removesuffix("ps").partition("/")[0])
    if "/" in unit or unit.endswith("ps"):
        return StatedFigure("bandwidth_gb_s", size / 1e9)
    return StatedFigure("memory_bytes", size)
