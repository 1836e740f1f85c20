"""Search: walk the candidates chunk by chunk, drop those that miss a condition, keep the best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.candidates import CHUNK
from archcli.wings.shapes.symbolic.shapes.grid import NOT_WHOLE, Chunk, Judge, Structure, spans
from archcli.wings.shapes.symbolic.shapes.terms import FigureTerm, SweepNames
from archcli.wings.shapes.symbolic.varied import keep_freed_memory

Columns = Mapping[str, Any]
"""Arrays [N] by name, a value for each candidate."""


class Best:
    """The first `top` candidates by an objective, or the Pareto front of several objectives.

    Without an objective they stay in the order of the grid, as do equals. A candidate leaves the front if
    another is at least as good by all objectives and better by one.
    """

    def __init__(self, objectives: int, top: int | None) -> None:
        self.objectives, self.top = objectives, top
        self.keys: Any = None
        self.columns: dict[str, Any] = {}

    def add(self, keys: Sequence[Any], columns: Columns) -> None:
        """Add candidates later in the grid: for each objective the key [N] to minimize, and their columns."""
        np = required("numpy")
        new = _stacked(np, keys) if self.objectives else None
        length = len(next(iter(columns.values())))
        # first among themselves, so that few are joined with those that are kept
        places = self._chosen(new, length)
        new = None if new is None else new[:, places]
        merged = {name: array[places] for name, array in columns.items()}
        if self.columns:
            merged = {name: np.concatenate([self.columns[name], array]) for name, array in merged.items()}
            new = None if new is None else np.concatenate([self.keys, new], axis=1)
            places = self._chosen(new, len(next(iter(merged.values()))))
            merged = {name: array[places] for name, array in merged.items()}
            new = None if new is None else new[:, places]
        self.keys, self.columns = new, merged

    def _chosen(self, keys: Any, length: int) -> Any:
        """The places of the candidates that stay, in their order."""
        np = required("numpy")
        if keys is None:
            return np.arange(length)[: self.top]
        if len(keys) == 1:
            # stable, so that equals stay in the order of the grid
            return np.argsort(keys[0], kind="stable")[: self.top]
        front = _front(keys)
        return front[np.lexsort((front, *keys[::-1, front]))]

    def rows(self) -> dict[str, Any]:
        """The columns of the best `top` candidates."""
        return {name: array[: self.top] for name, array in self.columns.items()}

    @property
    def size(self) -> int:
        """The number of kept candidates; of a Pareto front all."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def _stacked(np: Any, keys: Sequence[Any]) -> Any:
    """Keys [K, N]; those of several objectives as floats where one needs more than 64 bits."""
    stacked = np.stack(keys)
    return stacked.astype(np.float64) if len(keys) > 1 and stacked.dtype == object else stacked


def _front(keys: Any) -> Any:
    """The places of the columns of keys [K, N] that no other dominates, ascending."""
    np = required("numpy")
    order = np.lexsort((np.arange(keys.shape[1]), *keys[::-1]))
    left, front = keys[:, order], []
    places = order
    while places.size:
        # the first by all keys in turn is dominated by none that is left
        first = left[:, :1]
        front.append(places[0])
        behind = (left >= first).all(axis=0) & (left > first).any(axis=0)
        behind[0] = True
        left, places = left[:, ~behind], places[~behind]
    return np.sort(np.asarray(front, dtype=np.int64))


UNCOUNTED = "no such pass"
"""The reason to drop candidates without a figure."""
STRUCTURE = "structure"
"""The column of a candidate's structure."""

Tick = Callable[[str, int, int], None]


def no_tick(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class SweepQuestion:
    """The question of a sweep: candidates, conditions, objectives, and figures to show.

    structures, names: the architectures, and the swept fields by name.
    ties: expressions by the field that they set, each from fields before it.
    where: conditions. objectives: (expression, whether the largest is best).
    shown: further figures. top: the most shapes in the answer; None for all.
    breaks_rule: whether a model breaks a design rule; None asks no rule.
    """

    structures: tuple[Structure, ...]
    names: SweepNames
    ties: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[Any, ...] = ()
    objectives: tuple[tuple[Any, bool], ...] = ()
    shown: tuple[Any, ...] = ()
    top: int | None = None
    breaks_rule: Judge | None = None

    @property
    def candidates(self) -> int:
        """How many candidates there are."""
        return sum(structure.grid.size for structure in self.structures)

    @cached_property
    def terms(self) -> tuple[list[FigureTerm], list[FigureTerm]]:
        """The figures to read: (those of all candidates at once, those of one after the other)."""
        expressions = (*self.where, *(expression for expression, _ in self.objectives), *self.shown)
        terms = self.names.terms(expressions)
        return [term for term in terms if not term.figure.slow], [term for term in terms if term.figure.slow]

    @cached_property
    def conditions(self) -> tuple[list[Any], list[Any]]:
        """The conditions: (those without a slow figure, the others)."""
        slow = {key for term in self.terms[1] for key in term.spellings}
        late = [condition for condition in self.where if slow & {*condition.names, *condition.calls}]
        return [condition for condition in self.where if condition not in late], late


@dataclass
class SweepTally:
    """Numbers of candidates: seen, matching, and dropped by reason.

    dropped: candidates that are no model, by reason.
    failed: models that do not meet a condition, by condition.
    broken: models that break a rule.
    refusal: the error of the first candidate without a figure.
    """

    seen: int = 0
    matching: int = 0
    broken: int = 0
    refusal: str = ""
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, tally: SweepTally) -> None:
        """Count those of another tally as well."""
        self.seen += tally.seen
        self.matching += tally.matching
        self.broken += tally.broken
        self.refusal = self.refusal or tally.refusal
        self.dropped.update(tally.dropped)
        self.failed.update(tally.failed)

    @property
    def counted(self) -> int:
        """The number of candidates that are countable models."""
        return self.seen - sum(self.dropped.values())


class Outcome(NamedTuple):
    """The result of a search: the best candidates, the tally of all, and whether it was interrupted."""

    best: Best
    tally: SweepTally
    interrupted: bool


class SweepPart(NamedTuple):
    """Candidates of a structure, by its number: those from `start` to `stop`."""

    number: int
    start: int
    stop: int


class PartOutcome(NamedTuple):
    """The best candidates of a part, its tally, and how many an interrupt left out."""

    best: Best
    tally: SweepTally
    unread: int


def parts_of(question: SweepQuestion, size: int = CHUNK) -> Iterator[SweepPart]:
    """All candidates in order, so many at a time."""
    for number, structure in enumerate(question.structures):
        yield from (SweepPart(number, *span) for span in spans(structure.grid.size, size))


def search_part(
    question: SweepQuestion, part: SweepPart, tell: Callable[[int], None] = lambda _: None
) -> PartOutcome:
    """Judge the candidates of a part, and rank those that match."""
    structure, best = question.structures[part.number], Best(len(question.objectives), question.top)
    chunk = Chunk(structure, structure.grid.chunk(part.start, part.stop), part.stop - part.start)
    tally = _judge(question, chunk, tell)
    if chunk.length:
        best.add(*_ranked(question, chunk, part.number))
    return PartOutcome(best, tally, chunk.unread)


def search(
    question: SweepQuestion, tick: Tick = no_tick, outcomes: Iterable[PartOutcome] | None = None
) -> Outcome:
    """Walk all candidates; an interrupt ends the walk with the best so far.

    outcomes: those of all parts in order, where other processes give them.
    """
    keep_freed_memory()
    best, tally, total = Best(len(question.objectives), question.top), SweepTally(), question.candidates

    def answer(part: SweepPart) -> PartOutcome:
        return search_part(question, part, lambda i: tick(f"{i:,} read", tally.seen, total))

    try:
        for of_part in outcomes or map(answer, parts_of(question)):
            if of_part.best.columns:
                best.add(of_part.best.keys, of_part.best.columns)
            tally.add(of_part.tally)
            if of_part.unread:
                return Outcome(best, tally, interrupted=True)
            tick(f"{tally.matching:,} match", tally.seen, total)
    except KeyboardInterrupt:
        return Outcome(best, tally, interrupted=True)
    return Outcome(best, tally, interrupted=False)


def _judge(question: SweepQuestion, chunk: Chunk, tell: Callable[[int], None]) -> SweepTally:
    """Drop candidates that are no model, miss a condition, or break a rule."""
    tally, (fast, slow), (cheap, late) = SweepTally(seen=chunk.length), question.terms, question.conditions
    for name, expression in question.ties.items():
        if name in chunk.structure.paths:
            tally.dropped[NOT_WHOLE] += chunk.tie(name, expression)
    tally.dropped.update(chunk.drop_conflicts())
    tally.dropped[UNCOUNTED] += chunk.count(fast)
    _meet(chunk, cheap, tally)
    if slow:
        tally.dropped[UNCOUNTED] += chunk.count_one_by_one(slow, tell)
        _meet(chunk, late, tally)
    if question.breaks_rule is not None:
        tally.broken = chunk.drop_broken(question.breaks_rule)
    tally.seen -= chunk.unread
    tally.matching, tally.refusal = chunk.length, chunk.refusal
    return tally


def _meet(chunk: Chunk, conditions: Iterable[Any], tally: SweepTally) -> None:
    """Drop the candidates that do not meet all conditions; each is counted under every one it fails."""
    np = required("numpy")
    together = np.ones(chunk.length, dtype=bool)
    for condition in conditions:
        flags = np.broadcast_to(condition.holds(chunk.of), (chunk.length,))
        tally.failed[condition.text] += chunk.length - int(np.count_nonzero(flags))
        together &= flags
    chunk.keep(together)


def _ranked(question: SweepQuestion, chunk: Chunk, number: int) -> tuple[list[Any], dict[Any, Any]]:
    """(key to minimize for each objective, columns) of the candidates of a chunk."""
    np = required("numpy")
    # a structure may lack a varied field: its zeros are told from sizes by `paths` in the report
    keys, columns = [], {name: np.zeros(chunk.length, dtype=np.int64) for name in question.names.varied}
    columns |= chunk.sizes
    for expression, largest in question.objectives:
        value = np.broadcast_to(expression.value(chunk.number), (chunk.length,))
        if not expression.is_figure:
            columns[expression.text] = value
        keys.append(_without_gaps(-value if largest else value))
    return keys, {**columns, **chunk.figures, STRUCTURE: np.full(chunk.length, number)}


def _without_gaps(key: Any) -> Any:
    """A key to minimize [N], infinite for candidates that lack the figure."""
    missing = key != key  # noqa: PLR0124 - true of NaN alone
    return required("numpy").where(missing, math.inf, key) if missing.any() else key
