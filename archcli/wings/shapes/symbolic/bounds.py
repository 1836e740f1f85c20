"""Bounds: (least, largest) of a result from those of its operands, by interval arithmetic."""

from __future__ import annotations

Ends = tuple[int, int]


def sums(a: Ends, b: Ends) -> Ends:
    """Bounds of a sum."""
    return a[0] + b[0], a[1] + b[1]


def differences(a: Ends, b: Ends) -> Ends:
    """Bounds of a difference."""
    return a[0] - b[1], a[1] - b[0]


def minima(a: Ends, b: Ends) -> Ends:
    """Bounds of the smaller of two numbers."""
    return min(a[0], b[0]), min(a[1], b[1])


def products(a: Ends, b: Ends) -> Ends:
    """Bounds of a product."""
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def quotients(a: Ends, b: Ends) -> Ends:
    """Bounds of a quotient that is rounded down; the divisor is not 0."""
    # a quotient is farthest out for the divisors next to 0, which lies within the range but is no divisor
    ends = [*b, *([-1, 1] if b[0] < 0 < b[1] else [])]
    corners = [n // d for n in a for d in ends]
    return min(corners), max(corners)


def remainders(a: Ends, b: Ends) -> Ends:
    """Bounds of the remainder of a division; the divisor is not 0."""
    if b[0] > 0:
        # a number below every divisor is its own remainder; else it lies from 0 to the largest divisor - 1
        return a if a[0] >= 0 and a[1] < b[0] else (0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1)
    # a remainder has the sign of its divisor; here it may have either
    most = max(abs(b[0]), abs(b[1]))
    return -most, most
