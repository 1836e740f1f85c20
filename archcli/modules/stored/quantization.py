"""Weight quantization: bits per stored matrix, scales included. It does not change what is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from archcli.arith import Number, Shape, ceil_div, prod
from archcli.graph import Row
from archcli.modules.spec.base import Conflict, Count, Size, Spec
from archcli.modules.spec.trace import ADAPTERS, outline
from archcli.modules.spec.unread import UNREAD
from archcli.modules.spec.values import Conversion, refused
from archcli.modules.stored.formats import (
    DTYPE_FORMATS,
    FORMATS,
    NATIVE,
    OF_BITS,
    UNPACKED,
    NativeProduct,
    Packing,
    stored_format,
)
from archcli.modules.stored.mixes import StoredLayers
from archcli.ops import Conv1d, Linear, Lookup

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
    `group_rows` rows, left out 1; with 0 it goes on in the next row. `input_bits` more are stored for each
    input (the groups of GPTQ's inputs) and `matrix_bits` for each matrix (its shape, a table of values),
    left out 0.
    """

    group_size: Size | Literal["row", "tensor"] | None = None
    scale_bits: Count | None = None
    zero_bits: Count | None = None
    second_group_size: Size | Literal["tensor", "none"] | None = None
    second_scale_bits: Count | None = None
    group_rows: Count | None = None
    input_bits: Count | None = None
    matrix_bits: Count | None = None

    def packing(self, usual: Mapping[str, Any]) -> Packing:
        """The format with defaults filled in from `usual`."""
        values = {field: value for field in Packing._fields if (value := getattr(self, field)) is not None}
        return Packing(**{**usual, **values})


class Rule(Format):
    """The format of the matrices that `match` names; what it leaves out is as for all others.

    `match` is one of the groups that `params` lists (embedding, ffn, experts), or consecutive steps of a
    path, in which * stands for any step and 0-3 for layers: layers.*.ffn, layers.0-3, q_proj.
    """

    match: str
    bits: Size | Literal["dtype"]

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


BITS_OF_EXLLAMA = "exl2 or exl3 by its bits, exl2-4.0"
USUAL_BITS = tuple(f"{kind}-{halves / 2}" for kind in ("exl2", "exl3") for halves in range(4, 17))


def _by_bits(value: Any) -> str:
    if isinstance(value, str) and OF_BITS.fullmatch(value):
        return value
    raise refused(value, BITS_OF_EXLLAMA)


if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = (
        Literal[(*FORMATS, *DTYPE_FORMATS)]
        | Annotated[str, Conversion(BITS_OF_EXLLAMA, _by_bits, USUAL_BITS)]
    )
"""A known format by name: q4_k_m, nf4-double, exl2-4.0."""


class Quantization(Format):
    """The stored format of projections and token tables: a known one by name, or what it consists of.

    `format` names a known one, such as q4_k_m or nf4-double; the name alone may stand in place of the
    mapping. Of the `rules` the last that names a matrix decides on it. Norms, biases and adapters keep the
    dtype, or have that of `rest`. `native` numbers are multiplied as they are where a device can. `unknown`
    names a form whose bytes are not known, such as vptq: no question about bytes is answered then. `label`
    is what a file calls its form: GPTQ, 4 bits in groups of 128. It changes nothing. `cache` is the dtype
    that a file has scales for, of keys and values: engines keep the cache in it. GPTQ,
    arXiv:2210.17323: {bits: 4, group_size: 128, zero_bits: 4}. NF4 of QLoRA, arXiv:2305.14314: {bits: 4,
    group_size: 64, scale_bits: 8, second_group_size: 256}.
    """

    short: ClassVar[str] = "format"
    bits: Size | Literal["dtype"] | None = None
    format: FormatName | None = None
    rules: tuple[Rule, ...] = ()
    rest: Literal["fp32", "bf16", "fp16"] | None = None
    native: Literal["fp8", "int8", "nvfp4", "mx"] | None = None
    unknown: str = ""
    label: str = ""
    cache: Literal["fp8", "int8", "nvfp4"] | None = None

    @property
    def unpacked(self) -> str | None:
        """The dtype of what is not packed; None for the model's."""
        return self.rest or (None if self.format is None else stored_format(self.format).rest)

    @property
    def product(self) -> NativeProduct | None:
        """How some devices multiply packed matrices; None where all unpack them."""
        native = self.native or ("" if self.format is None else stored_format(self.format).native)
        return NATIVE.get(native)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: both a format's name and what it consists of, or neither."""
        fields = [name for name in Packing._fields if getattr(self, name) is not None]
        if self.format is not None and fields:
            what = f"a format has a name or fields of its own, and this states format and {fields[0]}"
            yield Conflict(
                "quantization-format-fields", fields[0], what, "leave one of them out, or state rules"
            )
        if self.format is None and self.bits is None:
            what, hint = "missing key bits", "write how many, or the name of a format: q4_k_m"
            yield Conflict("quantization-without-bits", "bits", what, hint)

    def packings(self, layers: StoredLayers) -> Callable[[Row], Iterator[tuple[Packing, Number]]]:
        """A function of a row: (packing, number of layers) for each stored format of its matrix.

        The number is 1 outside of all layers. A row without a matrix that can be quantized yields nothing.
        """
        named = None if self.format is None else stored_format(self.format).packing_of(layers)

        def of_row(row: Row) -> Iterator[tuple[Packing, Number]]:
            numbers = layers.stored_span(row) if quantizable(row) else range(0)
            # no layer of the span stores its weights where an earlier row does
            if numbers and named is None:
                yield from self._in_ranges(row, numbers)
            elif numbers and named is not None:
                yield from self._by_number(row, numbers, named(row))

        return of_row

    def _in_ranges(self, row: Row, numbers: range) -> Iterator[tuple[Packing, Number]]:
        """Packings by ranges of layers: one holds between the bounds that rules set."""
        usual, at = self.packing({}), _number_at(row.path)
        # what no pass reads may be a table as well: it is packed where a rule names it
        named = [(UNPACKED if row.group == UNREAD else usual, EVERYWHERE)]
        named += [
            (rule.packing(usual._asdict()), span) for rule in self.rules for span in rule.spans(row, at)
        ]
        # between two neighbouring bounds no rule begins or ends: the last that holds there decides
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

    def _by_number(
        self, row: Row, numbers: range, named: Callable[[int], Packing]
    ) -> Iterator[tuple[Packing, Number]]:
        """Packings layer by layer, as a mixture gives each layer's matrix a type of its own."""
        at = _number_at(row.path)
        rules = [(rule.packing({}), span) for rule in self.rules for span in rule.spans(row, at)]

        def packing(number: int) -> Packing:
            by_rule = [packing for packing, (low, high) in rules if low <= number < high + 1]
            return by_rule[-1] if by_rule else named(number)

        yield from Counter(map(packing if rules else named, numbers)).items()

    def check_model(self, model: Any, layers: StoredLayers, key: str = "quantization") -> Iterator[Conflict]:
        """Conflicts: rules that match no matrix of the model, which states them at `key`."""
        rows = [row for row in outline(model, model.adapted) if quantizable(row)]
        groups = ", ".join(dict.fromkeys(row.group for row in rows))
        for i, rule in enumerate(self.rules):
            if not any(_matches_layer(rule, row, layers) for row in rows):
                what = f"no matrix of this model is called {rule.match!r}"
                yield Conflict(
                    "quantization-rule-unused",
                    f"{key}.rules.{i}.match",
                    what,
                    f"it has {groups}; or write steps of a path, such as layers.0-3.ffn",
                )


def quantizable(row: Row) -> bool:
    """Whether a row's weight is a projection, a convolution, a table or an unread matrix, and no adapter."""
    if row.group == UNREAD:
        return len(row.weights.get("weight", ())) > 1
    is_matrix = isinstance(row.op, Linear | Lookup | Conv1d) or is_stacked(row)
    return is_matrix and "weight" in row.weights and row.group != ADAPTERS


def is_stacked(row: Row) -> bool:
    """Whether files hold the blocks of a row's weight as one matrix, one below the other."""
    return bool(getattr(row.op, "is_matrix", False))  # of BlockDiagonal, not loaded for it


def is_expert(row: Row) -> bool:
    """Whether a row's weight is a stack of experts, those that no pass over text reads among them."""
    return bool(row.experts) or (row.group == UNREAD and len(row.weights["weight"]) > len(("out", "in")))


def matrix_shape(row: Row) -> Shape:
    """The shape [out, in, …] in which the weight of a row is packed."""
    shape = row.weights["weight"]
    if row.group == UNREAD:
        return shape[-2:]
    return (shape[0] * shape[1], *shape[2:]) if is_stacked(row) else shape


def matrix_count(row: Row) -> Number:
    """How many such matrices a row has: its experts, those that no pass reads among them."""
    if row.group == UNREAD:
        return prod(row.weights["weight"][:-2])
    return row.experts.n_experts if row.experts else 1


def _span(want: str, step: str, *, numbered: bool) -> Span | None:
    """The range of layers where a pattern's step matches a path's step; None for none."""
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


def _matches_layer(rule: Rule, row: Row, layers: StoredLayers) -> bool:
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
