"""The bits of a matrix by its format: values, and the constants that scale groups of them."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, Shape, ceil_div, prod


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
        if not isinstance(self.bits, int):
            return Bits(prod(shape) * width, 0)
        groups = self._groups(shape)
        scales = groups * (self.scale_bits + self.zero_bits)
        scales += self._second_groups(groups) * self.second_scale_bits
        scales += prod(shape[1:]) * self.input_bits + self.matrix_bits
        return Bits(prod(shape) * self.bits, scales)

    def _groups(self, shape: Shape) -> Number:
        if isinstance(self.group_size, int):
            return ceil_div(shape[0], self.group_rows) * ceil_div(prod(shape[1:]), self.group_size)
        return ceil_div(shape[0], self.group_rows) if self.group_size == "row" else 1

    def _second_groups(self, groups: Number) -> Number:
        if isinstance(self.second_group_size, int):
            return ceil_div(groups, self.second_group_size)
        return 1 if self.second_group_size == "tensor" else 0
