"""Grid: the candidates of a sweep, numbered, and read chunk by chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.symbolic import required
from archcli.units import parse_count
from archcli.wording import quote

VARY = "--vary"
DOTS = r" *(?:\.{2,3}|…|–) *"
RANGE = re.compile(rf"\w+{DOTS}\w+(?:(?:{DOTS}| *: *)\w+)?", re.ASCII)
"""A range as conditions or Python's neighbours write it: 16..96, 16...96, 16..96:4."""
MOST = 10**11
"""Candidates: as many as a day counts."""
LARGEST = 2**62
"""A size that a grid may state."""


class Axis(NamedTuple):
    """A field and the values that it takes, in their order: whole numbers, or texts as YAML has them."""

    name: str
    values: Sequence[Any]

    @property
    def is_numeric(self) -> bool:
        """Whether all values are whole numbers above 0."""
        return isinstance(self.values, range) or all(isinstance(value, int) for value in self.values)


def parse_axis(text: str) -> Axis:
    """Read NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=A,B,C; ArchError for anything else.

    HIGH belongs to the range. Sizes may be written 8k and 8K.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    path = f"{VARY} {quote(text)}"
    if not equals or not name or not values:
        hint = "such as d_model=1024:8192:128, n_layers=16:96 or attention.kind=gqa,mqa"
        raise ArchError(Problem("NAME=LOW:HIGH:STEP or NAME=A,B,C is needed", hint, path=path))
    if RANGE.fullmatch(values):
        colons = re.sub(DOTS, ":", values)
        raise ArchError(Problem(f"{quote(values)} is no range", f"write {colons}", path=path))
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
        """How many candidates there are."""
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
    """Raise ArchError for more candidates than anybody waits for."""
    if candidates > MOST:
        what = f"{candidates:.3g} candidates are more than a day counts"
        raise ArchError(what, f"at most {MOST:.0e}: narrow a range, or widen its step")
