"""Parameters that a model stores and no pass reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from archcli.graph import Tensor
from archcli.modules.base import Conflict
from archcli.ops import Parameter

Sizes = Mapping[str, int | tuple[int, ...]]
"""The size of each by its name: how many numbers, or a shape."""


def hold(x: Tensor, unread: Sizes) -> None:
    """Own these parameters, on the tape of x, at no cost."""
    for name, size in unread.items():
        Parameter(name, (size,) if isinstance(size, int) else tuple(size))(x, group="unread")


def check_unread(unread: Sizes) -> Iterator[Conflict]:
    """Conflicts: parameters without a size, or without a plain name."""
    for name, size in unread.items():
        sizes = (size,) if isinstance(size, int) else size
        if not sizes or min(sizes) < 1 or not name.isidentifier():
            what = f"unread {name!r} needs a size above 0 and a plain name"
            yield Conflict("unread-size", "unread", what, "mend it")
