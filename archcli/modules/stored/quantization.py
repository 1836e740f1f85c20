"""Weight quantization: bits per stored matrix, scales included. It does not change what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import Any, Literal, NamedTuple

from archcli.arith import Number, Shape, ceil_div, is_whole, prod
from archcli.graph import Row
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.base import Conflict, Count, Size, Spec
from archcli.modules.spec.trace import ADAPTERS, outline
from archcli.ops import Conv1d, Linear, Lookup


class Bits(NamedTuple):
    """Bits of a matrix: of its values, and of the constants that scale them."""

    values: Number
    scales: Number


class Packing(NamedTuple):
    """A format of quantized matrices, with all defaults filled in."""

    bits: int | str
    group_size: int | str = "row"
    scale_bits: int = 16
    zero_bits: int = 0
    second_group_size: int | str = "none"
    second_scale_bits: int = 32
    group_rows: int = 1
    input_bits: int = 0
    matrix_bits: int = 0

    def bits_of(self, shape: Shape, width: int) -> Bits:
        """The bits of a matrix [out, in, …] in this format; `width` is that of an unquantized element."""
        if not is_whole(self.bits):
            return Bits(prod(shape) * width, 0)
        groups = self._groups(shape)
        scales = groups * (self.scale_bits + self.zero_bits)
        scales += self._second_groups(groups) * self.second_scale_bits
        scales += prod(shape[1:]) * self.input_bits + self.matrix_bits
        return Bits(prod(shape) * self.bits, scales)

    def _groups(self, shape: Shape) -> Number:
        if is_whole(self.group_size):
            # a row is all that one output reads: of a convolution channels times taps
            return ceil_div(shape[0], self.group_rows) * ceil_div(prod(shape[1:]), self.group_size)
        return ceil_div(shape[0], self.group_rows) if self.group_size == "row" else 1

    def _second_groups(self, groups: Number) -> Number:
        if is_whole(self.second_group_size):
            return ceil_div(groups, self.second_group_size)
        return 1 if self.second_group_size == "tensor" else 0


Span = tuple[float, float]
"""The first and the last layer of a range."""
EVERYWHERE: Span = (0, inf)


class Format(Spec):
    """Values of `bits` each, and for every group of values a scale and, if stored, a zero point.

    `bits` dtype leaves a matrix as it is. `group_size` g groups g neighbours of a row (the inputs of one
    output); row, where it is left out, is all of a row, tensor all of a matrix. A scale takes `scale_bits`,
    left out 16; a zero point or minimum `zero_bits`, left out 0. With `second_group_size` s, every s of
    these scales share one more constant of `second_scale_bits`, left out 32 (double quantization, QLoRA,
    arXiv:2305.14314 section 3; the super-blocks of llama.cpp); tensor is one for a matrix. A group spans
    `group_rows` rows, left out 1. `input_bits` more are stored for each input (the groups of GPTQ's inputs)
    and `matrix_bits` for each matrix (its shape, a table of values), left out 0.
    """

    bits: Size | Literal["dtype"]
    group_size: Size | Literal["row", "tensor"] | None = None
    scale_bits: Count | None = None
    zero_bits: Count | None = None
    second_group_size: Size | Literal["tensor", "none"] | None = None
    second_scale_bits: Count | None = None
    group_rows: Size | None = None
    input_bits: Count | None = None
    matrix_bits: Count | None = None

    def packing(self, usual: Mapping[str, Any]) -> Packing:
        """The format with defaults filled in from `usual`."""
        stated = {field: value for field in Packing._fields if (value := getattr(self, field)) is not None}
        return Packing(**{**usual, **stated})


class Rule(Format):
    """The format of the matrices that `match` names; what it leaves out is as for all others.

    `match` is one of the groups that `params` lists (embedding, ffn, experts), or consecutive steps of a
    path, in which * stands for any step and 0-3 for layers: layers.*.ffn, layers.0-3, q_proj.
    """

    match: str

    def spans(self, row: Row, at: int) -> Iterator[Span]:
        """The ranges of layers in which the rule matches the row.

        Step `at` of the row's path is the number of its layer; -1 outside of all layers.
        """
        if self.match == row.group:
            yield EVERYWHERE
        steps, wanted = row.path.split("."), self.match.split(".")
        for start in range(len(steps) - len(wanted) + 1):
            spans = [_span(want, steps[start + i], numbered=start + i == at) for i, want in enumerate(wanted)]
            if None not in spans:
                yield max(span[0] for span in spans if span), min(span[1] for span in spans if span)


class Quantization(Format):
    """The stored format of projections and token tables.

    Of the `rules` the last that names a matrix decides on it. Norms, biases and adapters keep the dtype.
    GPTQ, arXiv:2210.17323: {bits: 4, group_size: 128, zero_bits: 4}. NF4 of QLoRA, arXiv:2305.14314: {bits:
    4, group_size: 64, scale_bits: 8, second_group_size: 256}.
    """

    rules: tuple[Rule, ...] = ()

    def packings(self, row: Row, layers: LayerIndex) -> Iterator[tuple[Packing, Number]]:
        """(packing, number of layers) for each stored format of a row's matrix.

        The number is 1 outside of all layers. A row without a matrix that can be quantized yields nothing.
        """
        if not quantizable(row):
            return
        usual = self.packing({})
        at = _number_at(row.path)
        numbers = layers.stored_span(row)
        # no layer of the span stores its weights: an earlier row does
        if not numbers:
            return
        named = [(usual, EVERYWHERE)]
        named += [
            (rule.packing(usual._asdict()), span) for rule in self.rules for span in rule.spans(row, at)
        ]
        # rules cut the layers into ranges, and one packing holds throughout a range
        bounds = {
            numbers.start,
            numbers.stop,
            *(bound for _, (low, high) in named for bound in (low, high + 1)),
        }
        inside = sorted(bound for bound in bounds if numbers.start <= bound <= numbers.stop)
        for start, stop in pairwise(inside):
            yield (
                [packing for packing, (low, high) in named if low <= start < high + 1][-1],
                _count(numbers, start, stop),
            )

    def check_model(self, model: Any, layers: LayerIndex) -> Iterator[Conflict]:
        """Conflicts: rules that match no matrix of the model."""
        rows = [row for row in outline(model, model.adapted) if quantizable(row)]
        groups = ", ".join(dict.fromkeys(row.group for row in rows))
        for i, rule in enumerate(self.rules):
            if not any(_matches_layer(rule, row, layers) for row in rows):
                what = f"no matrix of this model is called {rule.match!r}"
                yield Conflict(
                    "quantization-rule-unused",
                    f"quantization.rules.{i}.match",
                    what,
                    f"it has {groups}; or write steps of a path, such as layers.0-3.ffn",
                )


def quantizable(row: Row) -> bool:
    """Whether a row's weight is a projection, a convolution or a table, and no adapter."""
    return isinstance(row.op, Linear | Lookup | Conv1d) and "weight" in row.weights and row.group != ADAPTERS


def _span(want: str, step: str, *, numbered: bool) -> Span | None:
    """The layers in which a pattern's step matches a path's step; None for no layer."""
    first, dash, last = want.partition("-")
    if want == "*" or (want == step and not numbered):
        return EVERYWHERE
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        return None
    low, high = int(first), int(last or first)
    if numbered:
        return (low, high)
    return EVERYWHERE if step.isdecimal() and low <= int(step) <= high else None


def _number_at(path: str) -> int:
    steps = path.split(".")
    return steps.index("layers") + 1 if "layers" in steps else -1


def _matches_layer(rule: Rule, row: Row, layers: LayerIndex) -> bool:
    at = _number_at(row.path)
    numbers = layers.span(row.path)
    return any(
        _count(numbers, max(low, numbers.start), min(high + 1, numbers.stop)) > 0
        for low, high in rule.spans(row, at)
    )


def _count(numbers: range, start: float, stop: float) -> Number:
    """The number of entries in range(start, stop)."""
    first = numbers.start + ceil_div(int(start) - numbers.start, numbers.step) * numbers.step
    return max(0, ceil_div(int(stop) - first, numbers.step))
