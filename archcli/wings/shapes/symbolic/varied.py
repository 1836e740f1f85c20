"""Varied: an array with a number for each candidate of a sweep, which code takes for one number.

So code for one model runs once for thousands. Bounds of the values are kept by interval arithmetic: integers
that may exceed 64 bits become Python ints, so that numpy never wraps around.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

from archcli.wings.shapes.symbolic import bounds, required

MOST_KNOWN = 400
"""The most cached results of a run: equal layers repeat computations."""
FREED = 16 << 20
"""Bytes: more than any array of a run, and less than 32 MiB, glibc's largest M_MMAP_THRESHOLD."""
PLAIN = (int, float)
"""Types of numbers that are the same for all candidates."""


class CandidateRun:
    """One run of code over `length` candidates; `active` ones took the same branches so far."""

    __slots__ = ("active", "known", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.known: dict[Any, Any] = {}
        self.active = required("numpy").ones(length, dtype=bool)

    def decide(self, holds: Any) -> bool:
        """Whether a condition [N] holds for the first candidate; those with another answer leave the run."""
        answer = bool(holds[0])
        self.active &= holds if answer else ~holds
        return answer

    def once(self, operation: Any, a: Any, b: Any, compute: Callable[[], Any]) -> Any:
        """The result of an operation on two numbers, computed once."""
        key = operation, *((n, type(n)) if type(n) in PLAIN else (id(n), None) for n in (a, b))
        if key not in self.known:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            # hold a and b: the key has their ids, which Python gives to new objects once they are freed
            self.known[key] = compute(), a, b
        return self.known[key][0]


def keep_freed_memory() -> None:
    """Keep the memory of freed arrays in the process for the next ones: a sweep is twice as fast.

    glibc gives memory back to the system, page by page, above twice the largest block that it has mapped and
    freed (mallopt(3), M_MMAP_THRESHOLD), and would at every chunk. So a block is freed that is larger than
    any array of a run. No page of it is touched.
    """
    _ = required("numpy").empty(FREED, dtype="uint8")


Operation = Callable[[Any, Any], Any]
LIMIT = 2**63
EXACT_FLOAT = 2**53
"""Up to it every integer is exact as a float."""


class Varied:
    """An array [N] of the values of a run's candidates, as one number.

    Arithmetic is done for all of them. A comparison, or any other use that needs one value, is answered for
    the first, and the run goes on without the candidates that would answer otherwise. Of whole numbers
    (`VariedInt`) `low` and `high` bound all values; real ones (`VariedFloat`) have None.
    """

    __slots__ = ("array", "high", "low", "run")
    # else `array * varied` would be an array of objects: numpy leaves operators to this class
    __array_ufunc__ = None

    def __init__(
        self, run: CandidateRun, array: Any, low: int | None = None, high: int | None = None
    ) -> None:
        self.run, self.array, self.low, self.high = run, array, low, high

    def __add__(self, operand: Any) -> Any:
        if isinstance(operand, int) and operand == 0:
            return self
        return _combined(operator.add, self, operand, bounds.sums)

    def __radd__(self, operand: Any) -> Any:
        return self + operand

    def __sub__(self, operand: Any) -> Any:
        return _combined(operator.sub, self, operand, bounds.differences)

    def __rsub__(self, operand: Any) -> Any:
        return -self + operand

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, operand: Any) -> Any:
        if isinstance(operand, int) and operand in {0, 1}:
            return self if operand else 0
        if isinstance(operand, Fraction):
            return self._times(operand)
        return _combined(operator.mul, self, operand, bounds.products)

    def __rmul__(self, operand: Any) -> Any:
        return self * operand

    def __floordiv__(self, operand: Any) -> Any:
        return _combined(operator.floordiv, self, _divisor(operand), bounds.quotients)

    def __rfloordiv__(self, operand: Any) -> Any:
        if isinstance(operand, Fraction):
            return operand // Fraction(cast("int", self))
        return _combined(operator.floordiv, operand, _divisor(self), bounds.quotients)

    def __mod__(self, operand: Any) -> Any:
        return _combined(operator.mod, self, _divisor(operand), bounds.remainders)

    def __rmod__(self, operand: Any) -> Any:
        return _combined(operator.mod, operand, _divisor(self), bounds.remainders)

    def __divmod__(self, operand: Any) -> Any:
        return self // operand, self % operand

    def __truediv__(self, operand: Any) -> Any:
        if not isinstance(operand, NUMBERS):
            return NotImplemented
        return _ratio(self, _divisor(operand))

    def __rtruediv__(self, operand: Any) -> Any:
        if isinstance(operand, Fraction):
            return operand / Fraction(self._pinned())
        return _ratio(operand, _divisor(self))

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, NUMBERS):
            return NotImplemented
        if self.low is not None and isinstance(power, int) and power >= 0:
            result: Any = 1
            for _ in range(power):
                result = result * self
            return result
        base = _divisor(self) if power < 0 else self
        return VariedFloat(self.run, _raw(base).astype(float) ** power)

    def __rpow__(self, base: Any) -> Any:
        return VariedFloat(self.run, float(base) ** _raw(self).astype(float))

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __eq__(self, operand: object) -> bool:
        # by bounds alone: most comparisons are of a size with 0 or 1
        if isinstance(operand, int) and self.low is not None and not self.low <= operand <= (self.high or 0):
            return False
        return isinstance(operand, NUMBERS) and self._decided(operator.eq, operand)

    def __ne__(self, operand: object) -> bool:
        return not self == operand

    def __lt__(self, operand: Any) -> bool:
        return self._decided(operator.lt, operand)

    def __le__(self, operand: Any) -> bool:
        return self._decided(operator.le, operand)

    def __gt__(self, operand: Any) -> bool:
        return self._decided(operator.gt, operand)

    def __ge__(self, operand: Any) -> bool:
        return self._decided(operator.ge, operand)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self._pinned())

    def __index__(self) -> int:
        if self.low is None:
            raise TypeError("a real number is no index")
        return int(self._pinned())

    def __int__(self) -> int:
        return int(self._pinned())

    def __float__(self) -> float:
        return float(self._pinned())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._pinned(), digits)

    def __str__(self) -> str:
        return str(self.first)

    def __repr__(self) -> str:
        return repr(self.first)

    def __format__(self, form: str) -> str:
        return format(self.first, form)

    @property
    def first(self) -> Any:
        """The first candidate's value, for messages alone: others may differ."""
        value = self.array[0]
        return value.item() if hasattr(value, "item") else value

    def bit_length(self) -> int:
        """Binary digits, as of an int; candidates with another number of them leave the run."""
        digits: int = self.first.bit_length()
        most = 1 << digits
        # compared for the effect: candidates with more or fewer digits leave the run
        _ = self < most
        _ = self >= most // 2
        return digits

    def minimum(self, operand: Any) -> Any:
        """The smaller of two numbers, candidate by candidate."""
        np = required("numpy")
        return _combined(np.minimum, self, operand, bounds.minima)

    def _times(self, fraction: Fraction) -> Any:
        """The product with a fraction: an array if it is an integer, else of the first candidate alone."""
        product = self * fraction.numerator
        if product % fraction.denominator == 0:
            return product // fraction.denominator
        return self._pinned() * fraction

    def _pinned(self) -> Any:
        """The first candidate's value; those with another leave the run."""
        self.run.decide(self.array == self.array[0])
        return self.first

    def _decided(self, compare: Callable[[Any, Any], Any], operand: Any) -> bool:
        if operand is self:
            return bool(compare(0, 0))
        mine, its = _ends(self), _ends(operand)
        if mine is not None and its is not None:
            answers = {compare(a, b) for a in mine for b in its}
            # <, > of all ends hold for all values between them; for == ranges must be disjoint, below
            if len(answers) == 1 and compare is not operator.eq:
                return bool(answers.pop())
            if compare is operator.eq and (mine[1] < its[0] or its[1] < mine[0]):
                return False
        # a comparison of object arrays is an object array, which `&=` does not take
        return self.run.decide(compare(*_operands(self, operand)).astype(bool))


class VariedInt(Varied):
    """Whole numbers of a run's candidates; `Fraction` takes them like any int."""

    __slots__ = ()
    decides = True
    """Code that branches on a size branches on the first candidate's."""

    @property
    def numerator(self) -> Any:
        """The number itself."""
        return self

    @property
    def denominator(self) -> int:
        """1, as of an int."""
        return 1


class VariedFloat(Varied):
    """Real numbers of a run's candidates."""

    __slots__ = ()


# so that Fraction accepts them
numbers.Integral.register(VariedInt)
numbers.Real.register(VariedFloat)

NUMBERS = (int, float, Varied)
"""Types of the operands that a `Varied` takes."""


def _ends(number: Any) -> tuple[int, int] | None:
    """The least and the largest value of a whole number; None for a real one."""
    if isinstance(number, Varied):
        return None if number.low is None or number.high is None else (number.low, number.high)
    return (int(number), int(number)) if isinstance(number, int) else None


def _raw(number: Any) -> Any:
    return number.array if isinstance(number, Varied) else number


def _operands(a: Any, b: Any, *, wide: bool = False) -> tuple[Any, Any]:
    """The arrays or plain numbers of two operands; arrays of Python ints if 64 bits may not suffice."""
    wide = wide or any(isinstance(n, int) and not -LIMIT <= n < LIMIT for n in (a, b))
    x, y = _raw(a), _raw(b)
    if not wide:
        return x, y
    return tuple(n.astype(object) if hasattr(n, "astype") else n for n in (x, y))


def _combined(compute: Operation, a: Any, b: Any, extent: Operation) -> Any:
    """The result of an operation on two numbers, at least one of them `Varied`; each is computed once."""
    if not all(isinstance(n, NUMBERS) for n in (a, b)):
        return NotImplemented
    run = a.run if isinstance(a, Varied) else b.run
    return run.once(compute, a, b, lambda: _computed(run, compute, a, b, extent))


def _computed(run: CandidateRun, compute: Operation, a: Any, b: Any, extent: Operation) -> Any:
    """The result of an operation; `extent` gives the bounds of whole numbers."""
    ends = _ends(a), _ends(b)
    if ends[0] is None or ends[1] is None:
        x, y = (n.astype(float) if hasattr(n, "astype") else float(n) for n in (_raw(a), _raw(b)))
        return VariedFloat(run, compute(x, y))
    low, high = extent(*ends)
    wide = not (low >= -LIMIT and high < LIMIT)
    array = compute(*_operands(a, b, wide=wide))
    if not wide and array.dtype == object:
        array = array.astype("int64")
    return VariedInt(run, array, low, high)


def _divisor(number: Any) -> Any:
    """The divisor without zeros: candidates with a zero leave the run.

    Raises ZeroDivisionError where the first one's is zero.
    """
    if number == 0:
        raise ZeroDivisionError
    ends = _ends(number) if isinstance(number, Varied) else None
    if ends is None or not ends[0] <= 0 <= ends[1]:
        return number
    # 1 in place of 0: these candidates have left the run, but numpy still divides for them
    array = number.array + (number.array == 0)
    return VariedInt(number.run, array, ends[0] or 1, max(ends[1], 1))


def _ratio(a: Any, b: Any) -> Any:
    """a / b as floats, rounded once as in Python.

    Above 2^53 a conversion of a and b would round before the division rounds again: Python divides ints.
    """
    run = a.run if isinstance(a, Varied) else b.run
    ends = _ends(a), _ends(b)
    large = any(end is not None and max(map(abs, end)) > EXACT_FLOAT for end in ends)
    if large and None not in ends:
        np = required("numpy")
        divide = np.frompyfunc(lambda x, y: x / y if y else float("nan"), 2, 1)
        return VariedFloat(run, divide(*_operands(a, b, wide=True)).astype(float))
    x, y = (n.astype(float) if hasattr(n, "astype") else float(n) for n in (_raw(a), _raw(b)))
    return VariedFloat(run, x / y)
