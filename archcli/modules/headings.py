"""Report headings and row paths of the modules besides a model's layers.

They are constants in a file of their own, so that naming them imports no module class.
"""

from __future__ import annotations

from archcli.graph import Row

MTP = "mtp"
"""The first step of the paths of multi-token prediction's rows, and the heading they are counted under."""

ADAPTERS = "lora"
"""The heading of low-rank adapters."""

LOSS = "loss"
"""The heading under which a loss is counted."""


def is_prediction(row: Row) -> bool:
    """Whether a row belongs to multi-token prediction."""
    return row.path.startswith(f"{MTP}.")
