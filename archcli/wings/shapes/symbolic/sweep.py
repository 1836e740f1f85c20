"""Sweep: parameters and FLOPs of very many candidate shapes, as numpy arrays through the same forward.

Candidates go through in chunks, so that the arrays of a chunk stay in the processor's cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.measure.passes import forward_pass
from archcli.modules import Model, substitute
from archcli.modules.spec.request import usual_tokens
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.candidates import CHUNK, branches, gathered
from archcli.wings.shapes.symbolic.symbols import fields_named
from archcli.wings.shapes.symbolic.varied import keep_freed_memory

Paths: TypeAlias = list[tuple[str, Any]]
"""Full paths of the sizes that are swept, with the array of each."""


class SweepArrays(NamedTuple):
    """The fields of `Sweep`, without its `kept_bytes`."""

    params: Any
    matmul_flops: Any
    other_flops: Any


class Sweep(SweepArrays):
    """The figures of a sweep: an int64 array each, with a value for every candidate.

    `kept_bytes` is counted when it is first read.
    """

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


def sweep(
    model: Model,
    values: Mapping[str, Any],
    *,
    batch_size: int = 1,
    seq_len: int | None = None,
    unmasked: bool = False,
) -> Sweep:
    """Count `model` with the named sizes replaced, candidate by candidate.

    `values` maps a field's name (`d_ff`, or a full path) to an array, one whole number above 0 per candidate.
    Sizes that do not fit together, such as heads that do not divide, are not refused. Raises ArchError where
    a name is unknown, arrays differ in length, a size by which another is divided comes to 0, or a count
    could reach 2^63.
    """
    np = required("numpy")
    arrays = {name: _sizes(np, name, value) for name, value in values.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ArchError("a sweep needs arrays of one length", "give each field as many values as the others")
    seq_len = int(usual_tokens(model.max_seq_len)) if seq_len is None else seq_len
    paths = [(path, array) for name, array in arrays.items() for path in fields_named(model, name)]
    twice = [path for path, times in Counter(path for path, _ in paths).items() if times > 1]
    if twice:
        raise ArchError(Problem("two arrays for one size", "leave one of its names out", path=twice[0]))
    counted = partial(_counted, batch_size=batch_size, seq_len=seq_len, unmasked=unmasked)
    result = Sweep(*_of_candidates(model, paths, counted))
    # no element of the tuple: counted only when asked for
    result.count_kept = partial(_kept, model, paths, batch_size, seq_len)
    return result


def _of_candidates(
    model: Model, paths: Paths, count: Callable[[Model], tuple[Number, ...]], size: int = CHUNK
) -> Any:
    """An array for each figure of all candidates, counted in chunks of `size`."""
    np = required("numpy")
    keep_freed_memory()
    rows = []
    for start in range(0, len(paths[0][1]), size):
        chunk = {path: array[start : start + size] for path, array in paths}
        rows.append(_of_chunk(model, chunk, count))
    return [np.concatenate(columns) for columns in zip(*rows, strict=True)]


def _of_chunk(model: Model, chunk: dict[str, Any], count: Callable[[Model], tuple[Number, ...]]) -> list[Any]:
    length = len(next(iter(chunk.values())))
    try:
        parts = list(branches(chunk, length, lambda numbers: count(substitute(model, numbers))))
    except ZeroDivisionError:
        raise ArchError(
            "in a candidate a size comes to 0, by which another is divided",
            "leave out sizes that do not fit together, as d_model below n_heads",
        ) from None
    figures = range(len(parts[0].result))
    arrays = [
        gathered(length, ((part.places, part.array(part.result[i])) for part in parts)) for i in figures
    ]
    if any(array.dtype == object for array in arrays):
        raise ArchError(
            "some candidates are too large for 64-bit counts", "sweep smaller shapes, or a shorter sequence"
        )
    return arrays


def _kept(model: Model, paths: Paths, batch_size: int, seq_len: int) -> Any:
    """Bytes that each candidate keeps for the backward."""
    from archcli.wings.shapes.symbolic.formula import activation_memory  # rules that counts do not need

    def count(part: Model) -> tuple[Number]:
        return (activation_memory(part, batch_size, seq_len),)

    # to run each operation takes longer than the arithmetic of a chunk that stays in the cache
    return _of_candidates(model, paths, count, 8 * CHUNK)[0]


def _sizes(np: Any, name: str, value: Any) -> Any:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # lists of unequal length, or what cannot be read as an array
        array = np.empty(0, dtype=object)
    whole = array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    # unsigned arrays may hold more than an int64
    if not whole or (array.size and not 1 <= array.min() <= array.max() < 2**63):
        raise ArchError(Problem("a sweep needs a list of whole numbers above 0", path=name))
    return array.astype(np.int64)


def _counted(
    model: Model, batch_size: Number, seq_len: Number, *, unmasked: bool
) -> tuple[Number, Number, Number]:
    counted = forward_pass(model, batch_size, seq_len)
    return counted.params(), *counted.flops(unmasked=unmasked)
