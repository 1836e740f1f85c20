"""Sparsity: each pattern drawn as its paper draws it, a row per query, a column per key."""

import pytest

from archcli.modules import (
    DilatedWindow,
    FixedPattern,
    MultiHeadAttention,
    SoftmaxAttention,
    StridedPattern,
    WindowedGlobal,
)

PATTERNS = {
    "dilated": (
        DilatedWindow(window=3, dilation=2),
        True,
        """
        x . . . . . .
        . x . . . . .
        x . x . . . .
        . x . x . . .
        x . x . x . .
        . x . x . x .
        . . x . x . x
        """,
    ),
    "strided": (
        StridedPattern(stride=3),
        True,
        """
        x . . . . . .
        x x . . . . .
        x x x . . . .
        x x x x . . .
        . x x x x . .
        . . x x x x .
        x . . x x x x
        """,
    ),
    "fixed": (
        FixedPattern(stride=3, summary=2),
        True,
        """
        x . . . . . .
        x x . . . . .
        x x x . . . .
        . x x x . . .
        . x x x x . .
        . x x x x x .
        . x x . x x x
        """,
    ),
    # a window of 3 or of 2 reaches one key to either side
    "longformer": (
        WindowedGlobal(window=3, n_global=1),
        False,
        """
        x x x x x x x
        x x x . . . .
        x x x x . . .
        x . x x x . .
        x . . x x x .
        x . . . x x x
        x . . . . x x
        """,
    ),
    "longformer-local": (
        WindowedGlobal(window=2),
        False,
        """
        x x . . . . .
        x x x . . . .
        . x x x . . .
        . . x x x . .
        . . . x x x .
        . . . . x x x
        . . . . . x x
        """,
    ),
}


@pytest.mark.parametrize(("sparsity", "causal", "drawn"), PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_as_drawn(sparsity, causal, drawn):
    attention: SoftmaxAttention = MultiHeadAttention(n_heads=1, causal=causal, sparsity=sparsity)
    rows = [line.split() for line in drawn.split("\n") if line.strip()]
    assert [["x" if attention.mask.allows(i, j) else "." for j in range(7)] for i in range(7)] == rows
    assert attention.mask.pairs(7, 0, 7) == drawn.count("x")
