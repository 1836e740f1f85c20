"""The answer for weights in a form of unknown bytes: it names the form and gives no verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.errors import STATE_ONE
from archcli.measure.report import Report

FIGURES = {
    "fit": ("format", "engine", "context", "tokens_per_s", "peak_bytes", "memory_bytes", "change"),
    "memory": ("peak_bytes", "parts", "beyond_bytes", "kept_bytes", "change"),
    "predict": ("time_s", "tokens_per_s", "needed_bytes", "memory_bytes", "change"),
}
"""Figures of a command that depend on the bytes of weights, by JSON's keys."""
OF_BYTES = ("bytes", "published_bytes", "bits_per_weight", "bits_per_weight_without_scales")
OF_GROUPS = ("bytes_by_group", "active_bytes_by_group")
VERDICT = "unknown"


def without_verdict(command: str, form: str) -> Report:
    """The report of a command on a model whose weights have a form of unknown bytes."""
    totals: dict[str, Any] = {"fits": None, "verdict": VERDICT, "form": form}
    return Report(
        command=command,
        model={},
        inputs={},
        convention="",
        totals={**totals, **dict.fromkeys(FIGURES[command])},
        rows=[],
        title=f"no verdict: {unknown_bytes(form)}",
    )


def unknown_bytes(form: str) -> str:
    """What is not known, and how to state a form that is."""
    return f"weights are stored as {form}, whose bytes are not known; {STATE_ONE}"


def without_bytes(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of `archcli params`, those that depend on the bytes of weights as None."""
    kept = {name: value for name, value in figures.items() if name not in OF_GROUPS}
    groups = {name: dict.fromkeys(figures[name]) for name in OF_GROUPS if name in figures}
    unknown = dict.fromkeys(name for name in OF_BYTES if name in figures)
    widths: dict[str, Any] = {"params_by_width": {}} if "params_by_width" in figures else {}
    return {**kept, **unknown, **groups, **widths}
