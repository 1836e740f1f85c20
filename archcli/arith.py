"""Arithmetic on Number: Python ints, sympy expressions, numpy arrays and intervals.

Shapes and costs are written with `+ - * //` and these helpers only, so that one formula serves exact
counts, closed forms and sweeps. sympy and numpy are imported only when a number of theirs is already here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from fractions import Fraction

Number: TypeAlias = Any
"""An int, a sympy expression, a numpy integer array, or another type with `+ - * //` and a `minimum`."""

Shape: TypeAlias = tuple[Number, ...]

ELEMENT_BITS = {
    **dict.fromkeys(("fp64", "float64"), 64),
    **dict.fromkeys(("fp32", "float32", "tf32"), 32),
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "float16"), 16),
    **dict.fromkeys(("fp8", "int8", "float8_e4m3fn", "float8_e5m2"), 8),
    **dict.fromkeys(("fp4", "int4"), 4),
}
"""Bits of an element by dtype, under torch's names and the short ones of papers; without block scales."""


def prod(numbers: Iterable[Number]) -> Number:
    """The product of the numbers; 1 for none.

    Unlike `math.prod` it keeps the order, so symbols print as they were written.
    """
    result: Number = 1
    for number in numbers:
        result = result * number
    return result


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two numbers, element by element."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    # numbers that archcli.measure defines (Deferred, Varied); neither sympy nor numpy could compare them
    symbolic = next((number for number in (a, b) if hasattr(number, "minimum")), None)
    if symbolic is not None:
        return symbolic.minimum(b if symbolic is a else a)
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Min

        return Min(a, b)
    import numpy as np

    return np.minimum(a, b)


def maximum(a: Number, b: Number) -> Number:
    """The larger of two numbers, element by element."""
    # so that a type of numbers has to define `minimum` alone
    return a + b - minimum(a, b)


def touched(experts: Number, top_k: Number, tokens: Number) -> Number:
    """Experts that get a token, on average, where each token goes to `top_k` of E evenly at random.

    N tokens miss an expert with probability (1 - top_k / E)^N: 32 tokens touch 163 of 256 with a top_k of 8.
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)


def ceil_div(a: Number, b: Number) -> Number:
    """a / b rounded up."""
    # not math.ceil(a / b): a float is exact only below 2^53, and a symbol has no ceil
    return (a + b - 1) // b


def common_divisor(a: Number, b: Number) -> Number:
    """The greatest common divisor of ints, or of arrays of them, element by element."""
    from math import gcd

    if is_whole(a) and is_whole(b):
        return gcd(a, b)
    import numpy as np

    return np.gcd(a, b)


def largest_divisor(n: Number, most: int) -> Number:
    """The largest number up to `most` that divides n."""
    if not is_symbolic(n):
        return next(k for k in range(most, 0, -1) if n % k == 0)
    from sympy import Max, Min, Mod

    # k where it divides n, else 0
    return Max(*(k * (1 - Min(1, Mod(n, k))) for k in range(1, most + 1)))


def ceil_log2(n: Number) -> Number:
    """The logarithm of n to the base 2, rounded up."""
    if is_whole(n):
        # exact where math.log2 would round: beside a power of two, and above 2^53
        return (n - 1).bit_length()
    if is_symbolic(n):
        from sympy import ceiling, log

        return ceiling(log(n) / log(2))
    import numpy as np

    return np.frexp(n - 1)[1].astype(np.int64)  # exact below 2^53


def is_whole(n: Number) -> TypeGuard[int]:
    """Whether a size is a whole number that code may branch on: no symbol, and no array."""
    # `decides`: a number that stands for an int and decides a branch by rules of its own (Varied, Guided)
    return isinstance(n, int) or getattr(n, "decides", False)


def dimensions(number: Any) -> int:
    """The dimensions of an array; 0 of a plain number or a symbol."""
    axes: int = getattr(number, "ndim", 0)
    return axes


def is_one(n: Number) -> bool:
    """Whether a size is the number 1. Symbols and arrays stand for larger ones."""
    return is_whole(n) and n == 1


def at_most(a: Number, b: Number) -> bool:
    """Whether a size is at most another. A symbol or array is not: it stands for sizes beyond any bound."""
    return not any(is_symbolic(n) or dimensions(n) for n in (a, b)) and bool(a <= b)


def is_less(a: Number, b: Number) -> bool:
    """Whether a size is less than another. A symbol or array is not: it stands for larger ones."""
    return is_whole(a) and bool(a < b)


def triangle(n: Number) -> Number:
    """1 + 2 + … + n."""
    # n (n + 1) is even; sympy would write // as floor(), which no later sum simplifies
    return n * (n + 1) / 2 if is_symbolic(n) else n * (n + 1) // 2


def floor_sum(n: Number, step: Number) -> Number:
    """0 // step + 1 // step + … + (n - 1) // step."""
    whole = n // step
    return step * triangle(whole - 1) + (n - whole * step) * whole


def tetrahedron(n: Number) -> Number:
    """1 + (1 + 2) + … + (1 + 2 + … + n)."""
    # a multiple of 6 for every n, so that both divisions are exact
    product = n * (n + 1) * (n + 2)
    return product / 6 if is_symbolic(n) else product // 6


def to_bytes(elements: Number, dtype: str) -> Number:
    """Bytes of this many elements; widths below a byte are rounded up in total."""
    # rounded once for all elements: two elements of 4 bits share a byte
    return ceil_div(elements * ELEMENT_BITS[dtype], 8)


def exact(share: float) -> Fraction:
    """The exact fraction of a decimal: 0.15 is 3/20."""
    from fractions import Fraction

    # str() gives the shortest decimal; Fraction(0.15) would be 5404319552844595 / 2^55
    return Fraction(str(share))


def share_of(number: Number, share: float) -> Number:
    """`share` times a number as an exact fraction; a whole result is an int."""
    return whole(number * exact(share))


def part_of(number: Number, part: Number, of: Number) -> Number:
    """number * part / of as an exact fraction; a whole result of ints is an int."""
    if is_symbolic(number) or is_symbolic(part) or is_symbolic(of):
        return number * part / of
    from fractions import Fraction

    if dimensions(of):
        import numpy as np

        # numpy has no fractions: an array of objects keeps every quotient exact
        return number * part * np.frompyfunc(lambda n: Fraction(1, int(n)), 1, 1)(of)
    return whole(number * part * Fraction(1, int(of)))


def _has_denominator(number: Number) -> bool:
    """Whether it is an int or a fraction: no float, and no expression or array without one."""
    return hasattr(number, "denominator")


def whole(number: Number) -> Number:
    """A fraction that is a whole number as an int; anything else as it is."""
    # an int's denominator is 1; an expression or an array without one stays as it is
    return number.numerator if _has_denominator(number) and number.denominator == 1 else number


def rounded(number: Number) -> Number:
    """A fraction to the nearest whole number, halves upwards; anything else as it is."""
    # floor(x + 1/2) in whole numbers: Python's round() takes a half to the even neighbour
    fraction = _has_denominator(number) and number.denominator != 1
    return (
        (2 * number.numerator + number.denominator) // (2 * number.denominator) if fraction else whole(number)
    )


def rounded_shape(shape: Any) -> Any:
    """A shape, or several, with every size that is a fraction to the nearest whole number."""
    return tuple(map(rounded_shape, shape)) if isinstance(shape, tuple) else rounded(shape)


def repetitions(total: Number, period: Number, i: int) -> Number:
    """The number of layers of `total` at position i of a repeated pattern."""
    # ceil((total - i) / period), without comparing a total that may be a symbol
    return (total + period - 1 - i) // period


def first_value(number: Number) -> Number:
    """The first of many candidates' numbers, to be written in a sentence; a plain number unchanged."""
    return getattr(number, "first", number)  # of a number with a value for each candidate


def label(index: Number) -> str:
    """A layer's index in a path: a number, a formula without blanks, `?` for an array of candidates."""
    return str(index).replace(" ", "") if dimensions(index) == 0 else "?"


def is_symbolic(number: Number) -> bool:
    """Whether this is a sympy expression."""
    # by attribute: isinstance would import sympy, only to rule it out
    return hasattr(number, "free_symbols")
