"""Compare the numbers of parameters of two variants, and find the d_ff that makes them equal."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.passes import shape_pass
from archcli.modules import GLU, MLP, Model, substitute
from archcli.modules.spec.base import find

LEAST = 0.001
"""A smaller share of the parameters is a norm more or less, and goes without a note."""


def parameter_notes(base: Model, variant: Model) -> Iterator[str]:
    """A note where a variant and the base differ in parameters, with the d_ff that would equal them."""
    wanted, params = _params(base), _params(variant)
    if abs(params - wanted) <= LEAST * wanted:
        return
    width = _equal_width(variant, wanted) if _kept_width(base, variant) else None
    hint = f": d_ff was kept, and d_ff={width} would give as many" if width else ""
    yield f"{params / wanted:.3g} times the parameters{hint}"


def _params(model: Model) -> int:
    return int(shape_pass(model).params())


def _dense_ffns(model: Model) -> dict[str, GLU | MLP]:
    """The dense feed-forward networks by their YAML paths."""
    return dict(find(model, GLU)) | dict(find(model, MLP))


def _kept_width(base: Model, variant: Model) -> bool:
    """Whether a dense feed-forward network changed its kind and kept its width."""
    before, after = _dense_ffns(base), _dense_ffns(variant)
    return any(
        before[path].kind != after[path].kind and before[path].d_ff == after[path].d_ff
        for path in before.keys() & after.keys()
    )


def _equal_width(model: Model, wanted: int) -> int | None:
    """The d_ff, equal in all dense networks, with which the model has `wanted` parameters."""
    # parameters are linear in d_ff, so that two widths tell the slope
    paths = [f"{path}.d_ff" for path in _dense_ffns(model)]
    first, second = (_params(substitute(model, dict.fromkeys(paths, width))) for width in (1, 2))
    width = 1 + round((wanted - first) / (second - first))
    return width if width > 0 else None
