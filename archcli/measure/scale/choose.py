"""Choose: the best shapes near a size, of those that break no rule which the base keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.measure.scale.search import RankedShape, ranked
from archcli.measure.scale.shape import BaseShape, Shape
from archcli.modules import Model

TRIES = 40
"""Shapes that are held against the rules, the best first."""
ALTERNATIVES = 3
FAR, CLOSE = 0.05, 0.02
"""Shares of the size: a shape within the first comes before any beyond it, even one that breaks a rule; of
shapes that break none, those within the second come first.
"""
Order = tuple[bool, int, bool, float]
INFO, NOTE = "info", 0.1
"""The severity of findings that are no failure, and what each counts: as much as a ratio 10% off."""


class JudgedModel(NamedTuple):
    """A model as it is read back from its YAML, and the rules it breaks: severities by code."""

    model: Model
    broken: Mapping[str, str]


Judge = Callable[[Model, int], JudgedModel | None]
"""Reads a model of so many parameters back from its YAML, and checks it; None where values conflict."""


class ChosenShape(NamedTuple):
    """A shape, the model that its YAML gives, its cost, and rules broken that the base keeps."""

    shape: Shape
    model: Model
    cost: float
    broken: Mapping[str, str]

    def order(self, params: int) -> Order:
        """Better is less: near the size, without failures, close to it, then by cost and information."""
        notes = sum(severity == INFO for severity in self.broken.values())
        off = abs(self.shape.params / params - 1)
        return off > FAR, len(self.broken) - notes, off > CLOSE, self.cost + NOTE * notes


def chosen(base: BaseShape, params: int, judge: Judge) -> list[ChosenShape]:
    """The best shape and its alternatives, each of another width or depth.

    Raises ArchError where no shape has about that size, or all contradict themselves.
    """
    kept = judge(base.model, base.counts[0])
    spared = {} if kept is None else kept.broken
    candidates: list[ChosenShape] = []
    for entry in _distinct(ranked(base, params)):
        judged = judge(entry.shape.model, entry.shape.params)
        if judged is not None:
            broken = {code: what for code, what in judged.broken.items() if code not in spared}
            candidates.append(ChosenShape(entry.shape, judged.model, entry.cost, broken))
        if _is_settled(candidates, entry.cost, params):
            break
    if not candidates:
        what = f"no shape of this model near {params:,} parameters has values that fit together"
        raise ArchError(what, "scale another preset of its series, or less far")
    in_order = sorted(candidates, key=lambda candidate: candidate.order(params))
    near = [candidate for candidate in in_order if abs(candidate.shape.params / params - 1) <= FAR]
    return _of_several_widths(near or in_order)


def _is_settled(candidates: list[ChosenShape], cost: float, params: int) -> bool:
    """Whether shapes of this cost and more can be none of the first few any longer."""
    orders = sorted(candidate.order(params) for candidate in candidates)
    widths = {candidate.shape.d_model for candidate in candidates}
    last = orders[ALTERNATIVES] if len(widths) > ALTERNATIVES else (True, 0, True, 0.0)
    return last < (False, 0, False, cost)


def _of_several_widths(candidates: list[ChosenShape]) -> list[ChosenShape]:
    """The first, and as alternatives the first of other widths before others of the same."""
    widths: dict[int, ChosenShape] = {}
    for candidate in candidates:
        widths.setdefault(candidate.shape.d_model, candidate)
    first = list(widths.values())[: ALTERNATIVES + 1]
    rest = [candidate for candidate in candidates if candidate not in first]
    return [*first, *rest][: ALTERNATIVES + 1]


def _distinct(shapes: list[RankedShape]) -> Iterator[RankedShape]:
    """The best of each width and depth, as far as they are looked at."""
    best: dict[tuple[int, int], RankedShape] = {}
    for entry in shapes:
        best.setdefault((entry.shape.d_model, entry.shape.n_layers), entry)
    yield from list(best.values())[:TRIES]
