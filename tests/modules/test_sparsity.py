"""Sparsity: each pattern drawn as its paper draws it, a row per query, a column per key."""

import pytest

from archcli.errors import ArchError
from archcli.modules import (
    BlockSparsePattern,
    Decoder,
    DilatedWindow,
    FixedPattern,
    Group,
    MultiHeadAttention,
    PreNorm,
    RMSNorm,
    SoftmaxAttention,
    StridedPattern,
    WindowedGlobal,
)
from archcli.modules.tensor_parallel.shard import shard

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
    # blocks of 2 tokens: the query's, and of those before every second
    "block-sparse": (
        BlockSparsePattern(block=2, near=1, stride=2),
        True,
        """
        x . . . . . .
        x x . . . . .
        . . x . . . .
        . . x x . . .
        . . x x x . .
        . . x x x x .
        . . x x . . x
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

SHIFTED = BlockSparsePattern(block=2, near=1, stride=2, shifted=True)


@pytest.mark.parametrize(("sparsity", "causal", "drawn"), PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_as_drawn(sparsity, causal, drawn):
    attention: SoftmaxAttention = MultiHeadAttention(n_heads=1, causal=causal, sparsity=sparsity)
    rows = [line.split() for line in drawn.split("\n") if line.strip()]
    assert [["x" if attention.mask.allows(i, j) else "." for j in range(7)] for i in range(7)] == rows
    assert attention.mask.pairs(7, 0, 7) == drawn.count("x")


def test_shifted_heads_are_a_multiple_of_their_stride():
    shifted = BlockSparsePattern(block=2, near=1, stride=3, shifted=True)
    with pytest.raises(ArchError, match="stride 3 of shifted heads does not divide n_heads 4"):
        MultiHeadAttention(n_heads=4, sparsity=shifted)
    # of 6 tokens in blocks of 2 the near pairs are 3 x 3, and each of 3 far pairs of blocks has one head of 3
    attention = MultiHeadAttention(n_heads=6, sparsity=shifted)
    assert attention.mask.pairs_of(6, 6, 0, 6) == 6 * 9 + 2 * 3 * 4


def test_ranks_share_shifted_heads_where_each_has_as_many_of_a_kind():
    layer = PreNorm(norm=RMSNorm(), attention=MultiHeadAttention(n_heads=6, head_dim=4, sparsity=SHIFTED))
    model = Decoder(vocab_size=10, d_model=8, norm=RMSNorm(), groups=(Group(n_layers=1, layer=layer),))
    with pytest.raises(ArchError, match="stride 2 of shifted heads does not divide n_heads 3"):
        shard(model, 2)
    whole, part = (layer.attention.mask, shard(model, 3).groups[0].blocks[0].attention.mask)
    # a rank's two heads see what every two of the six see
    assert 3 * part.pairs_of(2, 9, 0, 9) == whole.pairs_of(6, 9, 0, 9)
