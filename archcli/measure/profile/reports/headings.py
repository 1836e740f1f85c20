"""The inputs of a profile that its heading leaves out."""

from __future__ import annotations

from typing import Any

from archcli.measure.passes import usual_sizes
from archcli.modules.request import Phase


def usual_inputs(phase: Phase) -> dict[str, Any]:
    """The inputs of a run that go without saying."""
    return {**usual_sizes(phase), "device": "cpu", "attention": "sdpa"}
