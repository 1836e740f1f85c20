"""Selection: the terms of one row of `archcli params`, by its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archcli.errors import ArchError, Problem
from archcli.measure.symbolic.explain.components import split_path
from archcli.measure.symbolic.explain.terms import Term
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path, stated_layers
from archcli.wording import quote, suggest


def selected(model: Model, terms: Iterable[Term], wanted: str, stated: Model) -> Iterator[Term]:
    """The terms at or below a path: `layers.*.attention` of all layers, `layers.3.attention` of that one.

    `stated` is the model with whole numbers as sizes, `model` the same or one with symbols.
    """
    single = _counted_path(model, wanted, stated)
    for term in terms:
        path = term.path if single is not None else folded_path(term.path)
        if f"{path}.".startswith(f"{wanted if single is None else single}."):
            yield term._replace(times=1) if single is not None and term.times != 0 else term


def _counted_path(model: Model, wanted: str, stated: Model) -> str | None:
    """The path of the row that stands for a path with a layer's number; None of a path without."""
    index = LayerIndex(stated)
    layer, rest = split_path(index, index.counted_path(wanted))
    if not layer or layer.endswith("*"):
        return None
    yaml_paths = {known.path: known.yaml_path for known in stated_layers(stated)}
    rows = {known.yaml_path: known.path for known in stated_layers(model)}
    found = rows.get(yaml_paths.get(layer, ""), layer)
    return f"{found}.{rest}" if rest else found


def require_known(terms: Iterable[Term], stated: Model, wanted: str) -> None:
    """Raise ArchError for a path at which there are no parameters."""
    paths = list(terms)
    if any(selected(stated, paths, wanted, stated)):
        return
    known: dict[str, None] = {}
    for term in paths:
        steps = folded_path(term.path).split(".")
        known |= dict.fromkeys(".".join(steps[:n]) for n in range(1, len(steps) + 1))
    hint = suggest(folded_path(wanted), known, "`archcli params` lists")
    raise ArchError(Problem(f"no parameters at {quote(wanted, 80)}", hint))
