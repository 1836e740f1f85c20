"""What would make two variants fair: the width of a feed-forward network that gives both as many parameters."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.passes import find, forward_pass
from archcli.modules import GLU, MLP, Model, substitute

LEAST = 0.001
"""Differences in parameters below which nothing is said: a norm more or less."""


def matched(base: Model, other: Model) -> Iterator[str]:
    """Notes on a variant whose parameters are not those of the base: by how much, and which d_ff would mend it."""
    wanted, own = (int(forward_pass(model, 1, 1).params()) for model in (base, other))
    if abs(own - wanted) <= LEAST * wanted:
        return
    width = _width(other, wanted) if _same_width(base, other) else None
    yield f"{own / wanted:.3g} times the parameters" + (
        f": d_ff was kept, and d_ff={width} would give as many" if width else ""
    )


def _dense(model: Model) -> dict[str, GLU | MLP]:
    """The dense feed-forward networks by their paths."""
    return dict(find(model, GLU)) | dict(find(model, MLP))


def _same_width(base: Model, other: Model) -> bool:
    """Whether a dense feed-forward network changed its kind and kept its width."""
    ours, theirs = _dense(base), _dense(other)
    return any(
        type(ours[path]) is not type(theirs[path]) and ours[path].d_ff == theirs[path].d_ff
        for path in ours.keys() & theirs.keys()
    )


def _width(model: Model, wanted: int) -> int | None:
    """The d_ff, the same in all dense networks, with which the model has so many parameters: they grow in a straight line with it."""
    paths = [f"{path}.d_ff" for path in _dense(model)]
    first, second = (
        int(forward_pass(substitute(model, dict.fromkeys(paths, width)), 1, 1).params()) for width in (1, 2)
    )
    width = 1 + round((wanted - first) / (second - first))
    return width if width > 0 else None
