"""Sweep: parameters and FLOPs of very many candidate shapes, as numpy arrays through the same forward.

Candidates go through in chunks, so that the arrays of a chunk stay in the processor's cache. Ranges of sizes
go through first: they prove that no number leaves 64 bits, where numpy would wrap around without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.measure.passes import forward_pass
from archcli.measure.symbolic import required
from archcli.measure.symbolic.sizes import fields_named
from archcli.modules import Model, substitute

CHUNK = 16_384
LIMIT = 2**63


class Sweep(NamedTuple):
    """One figure per candidate, int64 arrays of equal length."""

    params: Any
    matmul_flops: Any
    other_flops: Any

    def __repr__(self) -> str:
        ranges = [f"{name} {int(row.min()):,} to {int(row.max()):,}" for name, row in self._asdict().items()]
        return f"<Sweep of {len(self.params):,} candidates: {', '.join(ranges)}>"


class SizeRange:
    """Interval arithmetic on whole numbers: bounds of a size, or of a count that is made of sizes."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        if not -LIMIT <= low <= high < LIMIT:
            raise OverflowError
        self.low, self.high = low, high

    def __add__(self, operand: Number) -> SizeRange:
        low, high = _ends(operand)
        return SizeRange(self.low + low, self.high + high)

    def __sub__(self, operand: Number) -> SizeRange:
        low, high = _ends(operand)
        return SizeRange(self.low - high, self.high - low)

    def __rsub__(self, operand: Number) -> SizeRange:
        return SizeRange(*_ends(operand)) - self

    def __mul__(self, operand: Number) -> SizeRange:
        corners = [a * b for a in (self.low, self.high) for b in _ends(operand)]
        return SizeRange(min(corners), max(corners))

    def __floordiv__(self, operand: Number) -> SizeRange:
        corners = [a // b for a in (self.low, self.high) for b in _ends(operand)]
        return SizeRange(min(corners), max(corners))

    def __rfloordiv__(self, operand: Number) -> SizeRange:
        return SizeRange(*_ends(operand)) // self

    def __pow__(self, power: float) -> float:
        return float("nan")  # scales are no counts

    __radd__, __rmul__ = __add__, __mul__

    def minimum(self, operand: Number) -> SizeRange:
        """The smaller of two."""
        low, high = _ends(operand)
        return SizeRange(min(self.low, low), min(self.high, high))


def _ends(number: Number) -> tuple[int, int]:
    # a plain int, which stands for itself, has no ends
    return (number.low, number.high) if isinstance(number, SizeRange) else (number, number)


def sweep(
    model: Model,
    values: Mapping[str, Any],
    *,
    batch_size: int = 1,
    seq_len: int = 2048,
    unmasked: bool = False,
) -> Sweep:
    """Count `model` with the named sizes replaced, candidate by candidate.

    `values` maps a field's name (`d_ff`, or a full path) to an array, one whole number above 0 per candidate.
    Sizes that do not fit together (heads that do not divide) are not looked for. Raises ArchError where a
    name is unknown, arrays differ in length, or a count could reach 2^63.
    """
    np = required("numpy")
    arrays = {name: _sizes(np, name, value) for name, value in values.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ArchError("a sweep needs arrays of one length", "give each field as many values as the others")
    paths = [(path, array) for name, array in arrays.items() for path in fields_named(model, name)]
    twice = [path for path, times in Counter(path for path, _ in paths).items() if times > 1]
    if twice:
        raise ArchError(Problem("two arrays for one size", "leave one of its names out", path=twice[0]))
    _prove_no_overflow(
        model,
        {path: SizeRange(int(array.min()), int(array.max())) for path, array in paths},
        batch_size,
        seq_len,
        unmasked=unmasked,
    )
    length = lengths.pop()
    out = np.empty((3, length), dtype=np.int64)
    for start in range(0, length, CHUNK):
        chunk = slice(start, start + CHUNK)
        part = substitute(model, {path: array[chunk] for path, array in paths})
        with np.errstate(all="ignore"):  # attention's scale, in shapes that do not fit together
            figures = _counted(part, batch_size, seq_len, unmasked=unmasked)
        for row, figure in zip(out, figures, strict=True):
            row[chunk] = figure
    return Sweep(*out)


def _sizes(np: Any, name: str, value: Any) -> Any:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # lists of unequal length, or what cannot be read as an array
        array = np.empty(0, dtype=object)
    whole = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    if not whole or (array.size and not 1 <= array.min() <= array.max() < LIMIT):
        raise ArchError(Problem("a sweep needs a list of whole numbers above 0", path=name))
    return array.astype(np.int64)


def _counted(
    model: Model, batch_size: Number, seq_len: Number, *, unmasked: bool
) -> tuple[Number, Number, Number]:
    counted = forward_pass(model, batch_size, seq_len)
    return counted.params(), *counted.flops(unmasked=unmasked)


def _prove_no_overflow(
    model: Model, values: Mapping[str, Any], batch_size: int, seq_len: int, *, unmasked: bool
) -> None:
    """Raise ArchError where the largest candidate's counts might overflow 64 bits."""
    try:
        _counted(
            substitute(model, values),
            SizeRange(batch_size, batch_size),
            SizeRange(seq_len, seq_len),
            unmasked=unmasked,
        )
    except OverflowError:
        raise ArchError(
            "some candidates are too large for 64-bit counts", "sweep smaller shapes, or a shorter sequence"
        ) from None
