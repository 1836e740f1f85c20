"""Dropout of modules that state a dropout share."""

from __future__ import annotations

from archcli.graph import Tensor


def dropped(x: Tensor, share: float, name: str = "dropout", group: str = "") -> Tensor:
    """Apply dropout with probability `share` to x, counted under `group`; no operation for 0."""
    if not share:
        return x
    from archcli.ops import Dropout  # rare: not loaded with every block

    y: Tensor = Dropout(name, share)(x, group=group)
    return y
