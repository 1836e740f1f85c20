"""Storage: the bits that weights take as they are stored, quantized or not, scales apart from values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from archcli.arith import ELEMENT_BITS, ceil_div, prod
from archcli.graph import Row
from archcli.modules import Model
from archcli.modules.headings import ADAPTERS
from archcli.modules.layers import LayerIndex


@dataclass(frozen=True, slots=True)
class Stored:
    """Weights, the bits of their values and of their scales, and how many weights there are of each width."""

    params: int = 0
    value_bits: int = 0
    scale_bits: int = 0
    widths: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        """Whole bytes of both."""
        whole: int = ceil_div(self.value_bits + self.scale_bits, 8)
        return whole

    @property
    def bits_per_weight(self) -> float:
        """The average, scales included."""
        return _per(self.value_bits + self.scale_bits, self.params)

    @property
    def bits_per_weight_without_scales(self) -> float:
        """The average of the values alone."""
        return _per(self.value_bits, self.params)

    def __add__(self, other: Stored) -> Stored:
        """Both together."""
        return Stored(
            self.params + other.params,
            self.value_bits + other.value_bits,
            self.scale_bits + other.scale_bits,
            self.widths + other.widths,
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """What several rows take: all of them, and those that are no adapters, which alone count for an average."""

    whole: Stored = Stored()
    base: Stored = Stored()

    @property
    def bits_per_weight(self) -> float | None:
        """The average of what is no adapter; None where nothing else is."""
        return self.base.bits_per_weight if self.base.params else None

    def with_row(self, row: Row, one: Stored) -> Kept:
        """With one more row."""
        return Kept(self.whole + one, self.base if row.group == ADAPTERS else self.base + one)


def stored(model: Model, rows: Iterable[Row], dtype: str) -> Iterator[tuple[Row, Stored]]:
    """What each row's weights take; `dtype` is that of the weights which are not quantized."""
    layers = LayerIndex(model)
    width = ELEMENT_BITS[dtype]
    for row in rows:
        matrices = Stored()
        for packing, n in model.quantization.packings(row, layers) if model.quantization is not None else ():
            shape, many = row.weights["weight"], n * (row.experts.n_experts if row.experts else 1)
            values, scales = packing.stored(shape, width)
            name = dtype if packing.bits == "dtype" else str(packing.bits)
            matrices += Stored(
                prod(shape) * many, values * many, scales * many, Counter({name: prod(shape) * many})
            )
        plain = row.params - matrices.params
        yield row, matrices + Stored(plain, plain * width, 0, Counter({dtype: plain}))


def weight_bytes(model: Model, rows: Iterable[Row], dtype: str) -> int:
    """Bytes of all weights as they are stored."""
    return sum((one for _, one in stored(model, rows, dtype)), start=Stored()).bytes


def _per(bits: int, params: int) -> float:
    """The quotient, a whole number where it is one."""
    return bits // params if params and bits % params == 0 else bits / (params or 1)
