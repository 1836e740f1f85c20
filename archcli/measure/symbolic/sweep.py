"""Sweep: parameters and FLOPs of very many candidate shapes, as numpy arrays through the same forward.

Candidates go through in chunks, so that the arrays of a chunk stay in the processor's cache. Ranges of sizes
go through first: they prove that no number leaves 64 bits, where numpy would wrap around without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.measure.passes import forward_pass
from archcli.measure.symbolic import required
from archcli.measure.symbolic.sizes import fields_named
from archcli.modules import Model, substitute

CHUNK = 16_384
LIMIT = 2**63

Paths: TypeAlias = list[tuple[str, Any]]
"""Full paths of the sizes that are swept, with the array of each."""


class SweepArrays(NamedTuple):
    """One figure per candidate, int64 arrays of equal length."""

    params: Any
    matmul_flops: Any
    other_flops: Any


class Sweep(SweepArrays):
    """One figure per candidate, int64 arrays of equal length, and `kept_bytes` when it is asked for."""

    count_kept: Callable[[], Any]

    @cached_property
    def kept_bytes(self) -> Any:
        """Bytes that each candidate's forward keeps for the backward: bf16, fused attention on CUDA.

        Counted when first asked for. Raises ArchError where a count could reach 2^63.
        """
        return self.count_kept()

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
    ends = {path: SizeRange(int(array.min()), int(array.max())) for path, array in paths}

    def at_the_ends() -> Any:
        batch, seq = SizeRange(batch_size, batch_size), SizeRange(seq_len, seq_len)
        return _counted(substitute(model, ends), batch, seq, unmasked=unmasked)

    _prove_no_overflow(at_the_ends)
    counted = partial(_counted, batch_size=batch_size, seq_len=seq_len, unmasked=unmasked)
    result = Sweep(*_of_candidates(model, paths, counted))
    result.count_kept = partial(_kept, model, paths, ends, batch_size, seq_len)
    return result


def _of_candidates(model: Model, paths: Paths, count: Callable[[Model], tuple[Number, ...]]) -> Any:
    """The figures of all candidates, chunk by chunk: an array for each."""
    np = required("numpy")
    length, rows = len(paths[0][1]), []
    for start in range(0, length, CHUNK):
        chunk = slice(start, start + CHUNK)
        part = substitute(model, {path: array[chunk] for path, array in paths})
        size = len(paths[0][1][chunk])
        with np.errstate(all="ignore"):  # attention's scale, in shapes that do not fit together
            rows.append([np.broadcast_to(np.asarray(n, dtype=np.int64), size) for n in count(part)])
    return [np.concatenate(columns) for columns in zip(*rows, strict=True)]


def _kept(model: Model, paths: Paths, ends: Mapping[str, SizeRange], batch_size: int, seq_len: int) -> Any:
    """Bytes that each candidate keeps for the backward."""
    from archcli.measure.symbolic.kept import activation_memory  # rules that counts do not need

    _prove_no_overflow(lambda: activation_memory(substitute(model, ends), batch_size, seq_len))
    return _of_candidates(model, paths, lambda part: (activation_memory(part, batch_size, seq_len),))[0]


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


def _prove_no_overflow(count: Callable[[], object]) -> None:
    """Raise ArchError where counting with ranges of sizes might overflow 64 bits."""
    try:
        count()
    except OverflowError:
        raise ArchError(
            "some candidates are too large for 64-bit counts", "sweep smaller shapes, or a shorter sequence"
        ) from None
