"""The inputs of a profile that its heading leaves out."""

from __future__ import annotations

from typing import Any

from archcli.measure.passes import usual_sizes


def usual_inputs(phase: str) -> dict[str, Any]:
    """The default inputs of a run in this phase, which a heading leaves out."""
    return {**usual_sizes(phase), "device": "cpu", "attention": "sdpa"}
