"""The candidates of a sweep: axes of --vary, their product as a grid, and chunks of it as arrays."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError, Problem, quote
from archcli.modules import Model, substitute
from archcli.units import parse_count
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.candidates import Branch, branches, gathered
from archcli.wings.shapes.symbolic.shapes.figures import Reading, first_conflict
from archcli.wings.shapes.symbolic.shapes.terms import FigureTerm, Key, size_of

VARY = "--vary"
DOTS = r" *(?:\.{2,3}|…|–) *"
HYPHEN = re.compile(r"(\d\w*) *- *(\d\w*)", re.ASCII)
"""A range as people write it: 1024-4096."""
RANGE = re.compile(rf"\w+{DOTS}\w+(?:(?:{DOTS}| *: *)\w+)?", re.ASCII)
"""A range in the notation of conditions and of other languages: 16..96, 16...96, 16..96:4."""
MOST = 10**11
"""The most candidates: about as many as a day counts."""
LARGEST = 2**62
"""The largest size in a grid."""


class Axis(NamedTuple):
    """A field and its values in order: integers, or texts as in YAML (`gqa`)."""

    name: str
    values: Sequence[Any]

    @property
    def is_numeric(self) -> bool:
        """Whether all values are whole numbers above 0."""
        return isinstance(self.values, range) or all(isinstance(value, int) for value in self.values)


def parse_axis(text: str) -> Axis:
    """Read NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=A,B,C; ArchError for anything else.

    HIGH is included. Sizes may be written 8k (8,000) and 8K (8,192).
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    path = f"{VARY} {quote(text)}"
    if not equals or not name or not values:
        hint = "such as d_model=1024:8192:128, n_layers=16:96 or attention.kind=gqa,mqa"
        raise ArchError(Problem("NAME=LOW:HIGH:STEP or NAME=A,B,C is needed", hint, path=path))
    if RANGE.fullmatch(values):
        colons = re.sub(DOTS, ":", values)
        raise ArchError(Problem(f"{quote(values)} is no range", f"write {colons}", path=path))
    if hyphen := HYPHEN.fullmatch(values):
        hint = f"write {hyphen[1]}:{hyphen[2]}, or {hyphen[1]}:{hyphen[2]}:128 for every 128th"
        raise ArchError(Problem(f"{quote(values)} is no range", hint, path=path))
    try:
        return Axis(name, _range(values) if ":" in values and "," not in values else _list(values))
    except ArchError as error:
        raise ArchError(Problem(it.what, it.hint, path=path) for it in error.problems) from None


def _range(text: str) -> range:
    low, high, step, *more = (*(parse_count(part) for part in text.split(":")), 1)
    if more not in ([], [1]):
        raise ArchError("a range has two or three numbers", "LOW:HIGH or LOW:HIGH:STEP")
    if low < 1 or step < 1:
        raise ArchError(f"{'a size' if low < 1 else 'a step'} is a whole number above 0")
    if high < low:
        raise ArchError(f"{low:,} to {high:,} is an empty range", f"write {high}:{low}" if high else "")
    if high > LARGEST:
        raise ArchError(f"{high:,} is larger than any size", "write a smaller end")
    return range(low, high + 1, step)


def _list(text: str) -> tuple[Any, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ArchError("a value is missing between commas", "leave the comma out")
    values = tuple(_value(part) for part in parts)
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ArchError(f"{twice[0]} stands there twice", "leave one out")
    small = [value for value in values if isinstance(value, int) and not 0 <= value <= LARGEST]
    if small:
        raise ArchError(f"{small[0]:,} is larger than any size", "write a smaller one")
    return values


def _value(text: str) -> Any:
    try:
        return parse_count(text)
    except ArchError:
        return text


class CandidateGrid(NamedTuple):
    """The product of some axes of whole numbers; the last axis changes fastest."""

    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """The number of candidates."""
        return prod(len(axis.values) for axis in self.axes)

    def chunk(self, start: int, stop: int) -> dict[str, Any]:
        """The values of the candidates from `start` to `stop`, an int64 array for each axis."""
        np = required("numpy")
        if not self.axes:
            return {}
        shape = [len(axis.values) for axis in self.axes]
        places = np.unravel_index(np.arange(start, stop, dtype=np.int64), shape)
        taken = (_taken(np, axis.values, index) for axis, index in zip(self.axes, places, strict=True))
        return {axis.name: array for axis, array in zip(self.axes, taken, strict=True)}


def _taken(np: Any, values: Sequence[int], index: Any) -> Any:
    if isinstance(values, range):
        return values.start + values.step * index
    return np.asarray(values, dtype=np.int64)[index]


def spans(size: int, chunk: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of every chunk of that many candidates."""
    return ((start, min(start + chunk, size)) for start in range(0, size, chunk))


def check_size(candidates: int) -> None:
    """Raise ArchError for more than MOST candidates."""
    if candidates > MOST:
        what = f"{candidates:.3g} candidates are more than a day counts"
        raise ArchError(what, f"at most {MOST:.0e}: narrow a range, or widen its step")


NOT_WHOLE = "tied to no whole number above 0"

Judge = Callable[[Model], bool]


class Structure(NamedTuple):
    """A model whose sizes are swept.

    model: with kinds in place of those that were varied.
    kinds: these kinds, by name.
    grid: of the sizes.
    paths: the full paths of each varied or tied name.
    """

    model: Model
    kinds: Mapping[str, str]
    grid: CandidateGrid
    paths: Mapping[str, Sequence[str]]

    def sized(self, sizes: Mapping[str, Number]) -> Model:
        """The model with sizes by the names of the grid."""
        return substitute(
            self.model, {path: size for name, size in sizes.items() for path in self.paths.get(name, ())}
        )


class Chunk:
    """Candidates with their sizes and figures, an array [N] each; dropped ones leave all arrays.

    structure: the model and its grid.
    sizes, figures: arrays by name.
    length: N.
    refusal: the error of the first candidate without a pass.
    unread: candidates that an interrupt left out.
    """

    def __init__(self, structure: Structure, sizes: dict[str, Any], length: int) -> None:
        self.structure, self.sizes, self.length = structure, sizes, length
        self.figures: dict[Key, Any] = {}
        self.refusal = ""
        self.unread = 0

    def of(self, key: Key) -> Any:
        """The array of a size or a figure, as conditions and objectives ask for it."""
        if key in self.figures:
            return self.figures[key]
        return self.sizes[key] if key in self.sizes else size_of(self.structure.model, key)

    def number(self, key: Key) -> Any:
        """The same for arithmetic: NaN for a size that these candidates do not have."""
        value = self.of(key)
        return math.nan if value is None else value

    def keep(self, flags: Any) -> int:
        """Drop the candidates whose flag [N] is false; returns their number."""
        np = required("numpy")
        kept = int(np.count_nonzero(flags))
        dropped, self.length = self.length - kept, kept
        if dropped:
            self.sizes = {name: array[flags] for name, array in self.sizes.items()}
            self.figures = {key: array[flags] for key, array in self.figures.items()}
        return dropped

    def tie(self, name: str, expression: Any) -> int:
        """Set a field to an expression; drop candidates for which it is no positive integer."""
        np = required("numpy")
        exact = expression.exact(self.of)
        values = np.broadcast_to(exact.over // exact.under, (self.length,))
        whole = np.broadcast_to(exact.over % exact.under == 0, (self.length,))
        # beyond 64 bits arrays are of dtype object, and so are their comparisons: hence astype(bool)
        flags = whole.astype(bool) & ((values >= 1) & (values <= LARGEST)).astype(bool)
        dropped = self.keep(flags)
        self.sizes[name] = values[flags].astype(np.int64)
        return dropped

    def drop_conflicts(self) -> Counter[str]:
        """Drop candidates whose values contradict each other; returns their number by the conflict's code."""
        codes, parts = Counter[str](), []
        for branch in self._branches(first_conflict):
            codes[branch.result] += len(branch.places)
            parts.append((branch.places, branch.array(0 if branch.result else 1)))
        self.keep(gathered(self.length, parts).astype(bool))
        # the empty code stands for candidates without a conflict
        del codes[""]
        return codes

    def count(self, terms: Iterable[FigureTerm]) -> int:
        """Compute figures of all candidates; drop those without such a pass, and return their number."""
        terms = list(terms)
        parts = list(self._branches(lambda model: self._read(model, terms)))
        readable = gathered(
            self.length, [(part.places, part.array(0 if part.result is None else 1)) for part in parts]
        )
        for i, term in enumerate(terms):
            arrays = [(part.places, part.array(part.result[i] if part.result else 0)) for part in parts]
            self._hold(term, gathered(self.length, arrays))
        return self.keep(readable.astype(bool))

    def count_one_by_one(self, terms: Iterable[FigureTerm], tell: Callable[[int], None]) -> int:
        """Compute slow figures candidate by candidate; drop those without such a pass.

        An interrupt leaves the rest `unread`.
        """
        np = required("numpy")
        terms, rows = list(terms), []
        try:
            for i, model in enumerate(self.models()):
                rows.append(self._read(model, terms))
                tell(i + 1)
        except KeyboardInterrupt:
            self.unread = self.length - len(rows)
            self.keep(np.arange(self.length) < len(rows))
        dropped = self.keep(np.asarray([row is not None for row in rows], dtype=bool)) if terms else 0
        for j, term in enumerate(terms):
            values = [np.nan if row[j] is None else row[j] for row in rows if row is not None]
            self._hold(term, np.asarray(values))
        return dropped

    def _hold(self, term: FigureTerm, values: Any) -> None:
        self.figures |= dict.fromkeys((term.key, *term.spellings), values)

    def drop_broken(self, breaks_rule: Judge) -> int:
        """Drop candidates that break a rule."""
        parts = [(part.places, part.array(1 - part.result)) for part in self._branches(breaks_rule)]
        return self.keep(gathered(self.length, parts).astype(bool))

    def models(self) -> Iterable[Model]:
        """Each candidate as a model."""
        for i in range(self.length):
            yield self.structure.sized({name: int(array[i]) for name, array in self.sizes.items()})

    def _branches(self, read: Callable[[Model], Any]) -> Iterable[Branch]:
        return branches(self.sizes, self.length, lambda sizes: read(self.structure.sized(sizes)))

    def _read(self, model: Model, terms: Sequence[FigureTerm]) -> list[Number] | None:
        """The figures of a model; None without such a pass, with the reason in `refusal`."""
        reading = Reading(model)
        try:
            return [term.figure.read(reading, term.settings) for term in terms]
        except ArchError as error:
            self.refusal = self.refusal or error.problems[0].what
        except ZeroDivisionError:
            self.refusal = self.refusal or "a size comes to 0"
        return None
