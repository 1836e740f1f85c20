"""Dropout where a module states a share to drop."""

from __future__ import annotations

from archcli.graph import Tensor


def dropped(x: Tensor, share: float, name: str = "dropout", group: str = "") -> Tensor:
    """x, of which training zeroes that share, counted under `group`; for 0 there is no operation."""
    if not share:
        return x
    from archcli.ops import Dropout  # rare: not loaded with every block

    y: Tensor = Dropout(name, share)(x, group=group)
    return y
