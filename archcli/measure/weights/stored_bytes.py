"""Names, shapes and bytes of stored weights, quantized or not; scales are counted apart from values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from archcli.arith import ELEMENT_BITS, Number, Shape, ceil_div, prod, to_bytes
from archcli.errors import ArchError, UnknownFormError
from archcli.graph import Row
from archcli.graph.count_tape import ShapeTape
from archcli.measure.passes import all_tower_rows, shape_pass, tower_rows
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path
from archcli.modules.spec.trace import ADAPTERS, outline
from archcli.modules.stored.formats import StoredFormat, is_format, stored_format
from archcli.modules.stored.quantization import Quantization, matrix_count, matrix_shape, quantizable


def tensors(model: Model) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """(weights, buffers) of the whole model: the keys of a built model's state_dict, experts stacked."""
    weights: dict[str, Shape] = {}
    buffers: dict[str, Shape] = {}
    layers = LayerIndex(model)
    for row in shape_pass(model).rows:
        stacked = () if row.experts is None else (row.experts.n_experts,)
        for path in layers.stored_paths(row):
            weights |= {f"{path}.{name}": (*stacked, *shape) for name, shape in row.weights.items()}
            buffers |= {
                f"{path}.{name}": (*stacked, *shape) for name, shape in row.op.buffers(*row.inputs).items()
            }
    return weights, buffers


def tower_tensors(model: Model) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """(weights, buffers) of the towers beside a language model, as `tensors` has those of the model."""
    weights: dict[str, Shape] = {}
    buffers: dict[str, Shape] = {}
    for tower in model.towers:
        layers = LayerIndex(tower)
        for row in tower_rows(tower, tower.usual, ShapeTape):
            for path in layers.stored_paths(row):
                whole = f"{tower.part}.{path}"
                weights |= {f"{whole}.{name}": shape for name, shape in row.weights.items()}
                held = row.op.buffers(*row.inputs)
                buffers |= {f"{whole}.{name}": shape for name, shape in held.items()}
    return weights, buffers


@dataclass(frozen=True, slots=True)
class WeightBits:
    """How many weights, the bits of their values and of their scales, and how many are of each width."""

    params: int = 0
    value_bits: int = 0
    scale_bits: int = 0
    widths: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        """Bytes of values and scales, rounded up."""
        whole: int = ceil_div(self.value_bits + self.scale_bits, 8)
        return whole

    @property
    def bits_per_weight(self) -> float:
        """The average width, scales included."""
        return _per(self.value_bits + self.scale_bits, self.params)

    @property
    def bits_per_weight_without_scales(self) -> float:
        """The average width of the values alone."""
        return _per(self.value_bits, self.params)

    def __add__(self, addend: WeightBits) -> WeightBits:
        return WeightBits(
            self.params + addend.params,
            self.value_bits + addend.value_bits,
            self.scale_bits + addend.scale_bits,
            # the sum of two Counters leaves out widths of no weight
            self.widths + addend.widths,
        )


@dataclass(frozen=True, slots=True)
class WeightTotals:
    """The bits of several rows, in all and without adapters; averages leave adapters out."""

    whole: WeightBits = WeightBits()
    base: WeightBits = WeightBits()

    @property
    def bits_per_weight(self) -> float | None:
        """The average width without adapters; None for adapters alone."""
        return self.base.bits_per_weight if self.base.params else None

    def with_row(self, row: Row, bits: WeightBits) -> WeightTotals:
        """The totals with another row."""
        return WeightTotals(self.whole + bits, self.base if row.group == ADAPTERS else self.base + bits)


SHOWN = 3
"""Matrices that a note names."""


def as_asked(model: Model, dtype: str | None, *, trains: bool = False) -> Model:
    """The model in the form that its weights are asked for: published, or plain for a stated `dtype`.

    What trains begins with the weights in the dtype that it computes in, unless a file says how it is stored.
    Raises UnknownFormError where no dtype is asked for, and that form is one of unknown bytes.
    """
    if dtype is not None:
        return model.replace(quantization=None) if model.is_as_published or model.unknown_form else model
    published = model if trains else model.as_published()
    if published.unknown_form:
        raise UnknownFormError(published.unknown_form)
    return published


def in_format(
    model: Model, dtype: str, plain: Iterable[str] = ELEMENT_BITS, computed: str = "bf16"
) -> tuple[Model, str]:
    """The model stored in a named format, and the dtype that it is `computed` in.

    Both are unchanged for a `plain` dtype. Raises ArchError where rows are not made of whole blocks, or the
    model states a quantization of its own, other than the form that it was published in.
    """
    if dtype in plain or not is_format(dtype):
        return model, dtype
    model = model.replace(quantization=None) if model.is_as_published or model.unknown_form else model
    if model.quantization is not None:
        what = f"the model states a quantization of its own, which {dtype} would contradict"
        raise ArchError(what, "give the dtype of what is not quantized, or --set quantization=null")
    quantization = Quantization(format=dtype)
    stored = model.replace(quantization=quantization)
    form = stored_format(dtype)
    for row in _broken_rows(model, form) if form.pure else ():
        length = prod(row.weights["weight"][1:])
        broken = f"{row.path}: rows of {length:,} weights are no whole blocks of {form.block}, as in {dtype}"
        raise ArchError(broken, "give a format of smaller blocks")
    return stored, computed


def _broken_rows(model: Model, form: StoredFormat) -> Iterator[Row]:
    """The rows of matrices that a format would pack, and that are no whole blocks."""
    rows = (row for row in outline(model, model.adapted) if quantizable(row))
    return form.broken_rows(rows, _layers(model))


def _layers(model: Model) -> LayerIndex:
    """The layers of a model, or of one rank's share of it."""
    return LayerIndex(model, 1 if model.degrees is None else model.degrees.of_networks)


def broken_notes(model: Model) -> Iterator[str]:
    """A note on the matrices that a named format leaves as they are."""
    form = stored_format(model.stored_as) if model.stored_as else None
    if form is None or form.mix or form.block == 1:
        return
    paths = [folded_path(row.path) for row in _broken_rows(model, form)]
    if paths:
        named = ", ".join([*dict.fromkeys(paths)][:SHOWN])
        what = f"rows that are no whole blocks of {form.block} stay in {form.rest}"
        yield f"{model.stored_as}: {what}: {named}."


class FormBits(NamedTuple):
    """The weights of a row that are stored in one form: its name, how many, the bits of values and scales."""

    name: str
    params: int
    values: int
    scales: int


def _forms(model: Model, dtype: str, layers: LayerIndex | None = None) -> Callable[[Row], Iterator[FormBits]]:
    """A function that yields, for a row, the forms in which its weights are stored."""
    model, dtype = in_format(model, dtype)
    packed, packings = model.quantization, None
    if packed is not None:
        dtype, packings = packed.unpacked or dtype, packed.packings(layers or _layers(model))
    width = ELEMENT_BITS[dtype]

    def of_row(row: Row) -> Iterator[FormBits]:
        packed_params = 0
        for packing, n in packings(row) if packings is not None else ():
            shape, many = matrix_shape(row), n * matrix_count(row)
            values, scales = packing.bits_of(shape, width)
            params, name = prod(shape) * many, dtype if packing.bits == "dtype" else str(packing.bits)
            packed_params += params
            yield FormBits(name, params, values * many, scales * many)
        plain = row.params - packed_params
        if plain:
            yield FormBits(dtype, plain, plain * width, 0)

    return of_row


def stored(model: Model, rows: Iterable[Row], dtype: str) -> Iterator[tuple[Row, WeightBits]]:
    """The bits of the weights of every row.

    `dtype` is that of weights which are not quantized, or the named format of all matrices.
    """
    of_row = _forms(model, dtype)
    for row in rows:
        whole = WeightBits()
        for name, params, values, scales in of_row(row):
            whole += WeightBits(params, values, scales, Counter({name: params}))
        yield row, whole


def packed_parts(model: Model, rows: Iterable[Row], width: Number) -> dict[str, Fraction]:
    """Bytes of each quantized matrix, by path, as a part of those with elements of `width` bytes."""
    if model.quantization is None:
        return {}
    packings, bits = model.quantization.packings(_layers(model)), 8 * int(width)
    parts = {}
    for row in rows:
        shape = matrix_shape(row) if "weight" in row.weights else ()
        known = [(sum(packing.bits_of(shape, bits)), n) for packing, n in packings(row)]
        many = sum(n for _, n in known)
        if many:
            parts[row.path] = Fraction(sum(size * n for size, n in known), many * prod(shape) * bits)
    return {path: part for path, part in parts.items() if part != 1}


def weight_bytes(model: Model, rows: Iterable[Row], dtype: str, layers: LayerIndex | None = None) -> int:
    """Bytes of all weights as they are stored; `layers` are the model's where they are known already."""
    of_row = _forms(model, dtype, layers)
    bits = sum(form.values + form.scales for row in rows if row.weights for form in of_row(row))
    whole: int = ceil_div(bits, 8)
    return whole


def tower_bytes(model: Model, dtype: str) -> dict[str, int]:
    """Bytes of the weights of towers and projectors by part, in the dtype that the model computes in.

    Formats of quantized weights are those of a language model: most published files leave towers as they are.
    """
    params: dict[str, int] = {}
    for part, row in all_tower_rows(model):
        params[part] = params.get(part, 0) + int(row.params)
    return {part: int(to_bytes(n, dtype)) for part, n in params.items() if n}


def _per(bits: int, params: int) -> float:
    """The quotient, as an int where it is a whole number."""
    return bits // params if params and bits % params == 0 else bits / (params or 1)
