"""Masks by their papers' definitions, and their closed forms against brute force over random sizes."""

import inspect

import numpy as np
import pytest
import sympy
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import archcli.ops
from archcli.ops import (
    Bidirectional,
    BlockSparse,
    Causal,
    CausalPattern,
    CentredWindow,
    Chunked,
    ClosedBlocks,
    Dilated,
    Fixed,
    Mask,
    NearAndBlocks,
    NearAndSource,
    NearAndSums,
    PatchWindows,
    PoolsAndTail,
    SlidingWindow,
    Strided,
    TopBlocks,
    TopK,
    WindowAndGlobal,
)

# name: how it is made of two sizes a >= 1 and b >= 0, and whether query i sees key j
MASKS = {
    "causal": (lambda a, b: Causal(), lambda a, b, i, j: j <= i),
    "full": (lambda a, b: Bidirectional(), lambda a, b, i, j: True),
    "window": (lambda a, b: SlidingWindow(a), lambda a, b, i, j: i - a < j <= i),
    "chunk": (lambda a, b: Chunked(a), lambda a, b, i, j: a * (i // a) <= j <= i),
    "dilated": (lambda a, b: Dilated(a, b + 1), lambda a, b, i, j: j in range(i, i - a * (b + 1), -b - 1)),
    "strided": (
        lambda a, b: Strided(a),
        lambda a, b, i, j: j in range(max(i - a, 0), i + 1) or j in range(i, -1, -a),
    ),
    # arXiv:1904.10509 section 4.2 with stride l = a + b and c = a summaries
    "fixed": (
        lambda a, b: Fixed(a + b, a),
        lambda a, b, i, j: j <= i and (j // (a + b) == i // (a + b) or j % (a + b) in range(b, a + b)),
    ),
    # blocks of a, the query's and the one before; of those before every third, counted from 1
    "block sparse": (
        lambda a, b: BlockSparse(a, b + 1, 3),
        lambda a, b, i, j: j <= i and (i // a - j // a <= b or (j // a + 1) % 3 == 0),
    ),
    "window and global": (
        lambda a, b: WindowAndGlobal(b, a - 1),
        lambda a, b, i, j: abs(i - j) <= b or min(i, j) < a - 1,
    ),
    # transformers' sliding_window_mask_function of T5Gemma 2
    "centred": (
        lambda a, b: CentredWindow(a),
        lambda a, b, i, j: 0 <= i - j < (a + 1) // 2 or 0 < j - i < a // 2 + 1,
    ),
}
# which keys, the tokens say; or keys of blocks
OTHERS = {
    PoolsAndTail,
    TopBlocks,
    TopK,
    ClosedBlocks,
    NearAndBlocks,
    NearAndSource,
    NearAndSums,
    PatchWindows,
}
every_mask = pytest.mark.parametrize(("make", "sees"), MASKS.values(), ids=MASKS)
lengths = st.integers(0, 40)
SIZES = {"a": st.integers(1, 20), "b": st.integers(0, 7)}


def seen(sees, a, b, new, past):
    return [[sees(a, b, query, key) for key in range(past + new)] for query in range(past, past + new)]


def brute(sees, a, b, new, past):
    return sum(map(sum, seen(sees, a, b, new, past)))


@pytest.mark.sample(7, whole=True)
@every_mask
@given(new=lengths, past=lengths, **SIZES)
def test_pairs_are_counted_one_by_one(make, sees, new, past, a, b):
    assert make(a, b).pairs(new, past, new + past) == brute(sees, a, b, new, past)


@pytest.mark.sample(7, whole=True)
@every_mask
@given(new=st.integers(1, 40), past=lengths, **SIZES)
def test_the_torch_run_sees_the_same_pairs(make, sees, new, past, a, b):
    queries, keys = torch.arange(past, past + new)[:, None], torch.arange(past + new)[None, :]
    assert make(a, b).allows(queries, keys).tolist() == seen(sees, a, b, new, past)


@pytest.mark.sample(1, whole=True)
@every_mask
@settings(max_examples=settings.default.max_examples // 5)  # sympy takes its time
@given(new=lengths, past=lengths, **SIZES)
def test_symbols_and_arrays_count_the_same_pairs(make, sees, new, past, a, b):
    values = {"new": new, "past": past, "a": a, "b": b}
    many = {name: value + np.arange(3) for name, value in values.items()}
    counted = np.broadcast_to(pairs(make, **many), 3).tolist()
    assert counted == [brute(sees, **{name: value + i for name, value in values.items()}) for i in range(3)]
    symbols = {name: sympy.Symbol(name, integer=True, nonnegative=True) for name in values}
    formula = sympy.sympify(pairs(make, **symbols))
    assert formula.subs({symbol: values[name] for name, symbol in symbols.items()}) == counted[0]


@given(new=lengths, past=lengths, **SIZES)
def test_of_chosen_keys_as_many_are_counted_as_are_chosen(new, past, a, b):
    chosen = sum(min(query + 1, a) for query in range(past, past + new))
    assert TopK(a).pairs(new, past, new + past) == chosen
    assert TopK(a).keep(past) == past
    assert TopK(a).covers(new, past + new) is (past + new <= a)


@given(new=lengths, past=lengths, **SIZES)
def test_of_chosen_blocks_all_are_whole_but_the_own(new, past, a, b):
    block = b + 1
    chosen = sum(block * min(query // block, a - 1) + query % block + 1 for query in range(past, past + new))
    assert TopBlocks(a, block).pairs(new, past, new + past) == chosen
    assert TopBlocks(a, block).keep(past) == past
    assert TopBlocks(a, block).covers(new, past + new) is (past + new <= a * block)


@given(new=lengths, past=lengths, **SIZES)
def test_of_chosen_pools_all_are_whole_and_the_open_one_is_seen_too(new, past, a, b):
    pool = b + 1
    chosen = sum(pool * min((query + 1) // pool, a) + (query + 1) % pool for query in range(past, past + new))
    assert PoolsAndTail(a, pool).pairs(new, past, new + past) == chosen
    assert PoolsAndTail(a, pool).keep(past) == past
    assert PoolsAndTail(a, pool).covers(new, past + new) is (past + new < (a + 1) * pool)


def test_a_query_sees_the_pools_that_it_is_given_and_the_open_one():
    """Pools of 2 tokens, one for each query; the first query is given one that is not closed yet."""
    given_pool = [1, 0, 0, 1, 0, 2, 1]
    selected = torch.tensor(given_pool).view(1, 7, 1)
    seen = PoolsAndTail(1, 2).sees(torch, torch.arange(7), 7, selected)
    visible = [[key for key, sees in enumerate(row) if sees] for row in seen[0, 0].tolist()]
    assert visible == [[0], [0, 1], [0, 1, 2], [2, 3], [0, 1, 4], [4, 5], [2, 3, 6]]
    # decoding one token behind six: the same last row
    last = PoolsAndTail(1, 2).sees(torch, torch.tensor([6]), 7, selected[:, -1:])
    assert last[0, 0].tolist() == seen[0, 0, -1:].tolist()


@pytest.mark.long
@given(new=lengths, past=lengths, window=st.integers(1, 9), rate=st.integers(1, 8), top_k=st.integers(0, 6))
def test_pairs_of_tokens_and_of_blocks_are_counted_one_by_one(new, past, window, rate, top_k):
    of_blocks = [sum((i + 1) * rate <= t + 1 for i in range(99)) for t in range(past, past + new)]
    near = [sum(0 <= t - s < window for s in range(past + new)) for t in range(past, past + new)]
    blocks, chosen = ClosedBlocks(rate), top_k or None
    assert blocks.pairs(new, past, (new + past) // rate) == sum(of_blocks)
    mask = NearAndBlocks(SlidingWindow(window), rate, top_k=chosen)
    assert mask.pairs(new, past, 0) == sum(near) + sum(min(n, top_k or n) for n in of_blocks)
    assert mask.keep(past) == SlidingWindow(window).keep(past)
    symbols = sympy.symbols("new past", integer=True, nonnegative=True)
    formula = sympy.sympify(mask.pairs(*symbols, 0))
    assert formula.subs(dict(zip(symbols, (new, past), strict=True))) == mask.pairs(new, past, 0)


@given(new=st.integers(1, 12), past=st.integers(0, 12), window=st.integers(1, 9), rate=st.integers(1, 5))
def test_keys_of_blocks_stand_behind_those_of_tokens(new, past, window, rate):
    positions, blocks = torch.arange(past, past + new), (past + new) // rate
    kept = min(past, window - 1) + new
    mask = NearAndBlocks(SlidingWindow(window), rate, blocks)
    expected = [
        [0 <= t - s < window for s in range(past + new - kept, past + new)]
        + [(i + 1) * rate <= t + 1 for i in range(blocks)]
        for t in range(past, past + new)
    ]
    assert mask.sees(torch, positions, kept + blocks).tolist() == expected
    # two sequences, for each query of which the first block is chosen
    selected = torch.zeros((2, new, 1 if blocks else 0), dtype=torch.long)
    seen = mask.sees(torch, positions, kept + blocks, selected)[1, 0].tolist()
    assert seen == [[*row[:kept], *row[kept : kept + 1], *[False] * (blocks - 1)] for row in expected]


@given(tokens=st.integers(1, 20), reach=st.integers(0, 9), rate=st.integers(1, 25))
def test_every_query_sees_the_sums_of_all_blocks(tokens, reach, rate):
    blocks = tokens // rate
    mask = NearAndSums(WindowAndGlobal(reach, 0), blocks)
    expected = [[abs(t - s) <= reach for s in range(tokens)] + [True] * blocks for t in range(tokens)]
    assert mask.sees(torch, torch.arange(tokens), tokens + blocks).tolist() == expected
    assert mask.pairs(tokens, 0, tokens + blocks) == sum(map(sum, expected))


@given(new=st.integers(1, 12), past=st.integers(0, 12), window=st.integers(1, 9), source=st.integers(1, 5))
def test_every_query_sees_the_whole_source_beside_its_own_window(new, past, window, source):
    kept = min(past, window - 1) + new
    mask = NearAndSource(SlidingWindow(window), source)
    expected = [
        [0 <= t - s < window for s in range(past + new - kept, past + new)] + [True] * source
        for t in range(past, past + new)
    ]
    assert mask.sees(torch, torch.arange(past, past + new), kept + source).tolist() == expected
    assert mask.pairs(new, past, kept + source) == sum(map(sum, expected))
    assert mask.causal


@pytest.mark.long
@given(
    new=st.integers(1, 30),
    past=lengths,
    block=st.integers(1, 6),
    near=st.integers(1, 4),
    stride=st.integers(1, 5),
)
def test_shifted_heads_see_other_blocks_and_are_counted_together(new, past, block, near, stride):
    heads, tokens = 2 * stride, range(past + new)
    expected = [
        [
            [
                j <= i and (i // block - j // block < near or (j // block + h + 1) % stride == 0)
                for j in tokens
            ]
            for i in range(past, past + new)
        ]
        for h in range(heads)
    ]
    mask = BlockSparse(block, near, stride, heads)
    assert mask.sees(torch, torch.arange(past, past + new), past + new)[0].tolist() == expected
    assert mask.pairs_of(heads, new, past, past + new) == sum(sum(map(sum, rows)) for rows in expected)
    symbols = sympy.symbols("heads new past", integer=True, nonnegative=True)
    formula = sympy.sympify(BlockSparse(block, near, stride, symbols[0]).pairs_of(*symbols, 0))
    given_now = dict(zip(symbols, (heads, new, past), strict=True))
    assert formula.subs(given_now) == mask.pairs_of(heads, new, past, 0)
    alike = BlockSparse(block, near, stride)
    assert alike.pairs_of(heads, new, past, 0) == heads * sum(map(sum, expected[0]))


def pairs(make, new, past, a, b):
    return make(a, b).pairs(new, past, new + past)


@pytest.mark.sample(9, whole=True)
@every_mask
@given(past=lengths, later=st.integers(0, 40), **SIZES)
def test_a_cache_keeps_all_that_a_later_query_sees(make, sees, past, later, a, b):
    dropped = past - make(a, b).keep(past)
    assert not any(sees(a, b, past + later, key) for key in range(dropped))


@pytest.mark.parametrize("name", ["causal", "window"])
@given(past=lengths, **SIZES)
def test_a_cache_keeps_no_more_than_the_next_query_sees(name, past, a, b):
    make, sees = MASKS[name]
    assert make(a, b).keep(past) == sum(sees(a, b, past, key) for key in range(past))


@given(past=lengths, **SIZES)
def test_a_chunked_cache_keeps_a_chunk(past, a, b):
    assert Chunked(a).keep(past) == min(past, a - 1)


@given(past=lengths, a=st.integers(2, 20), b=st.integers(0, 7))
def test_a_dilated_cache_reaches_to_the_farthest_key_and_no_farther(past, a, b):
    assume(past >= (a - 1) * (b + 1))
    mask = Dilated(a, b + 1)
    assert mask.allows(past, past - mask.keep(past))


@pytest.mark.sample(7, whole=True)
@every_mask
@given(new=st.integers(1, 20), past=lengths, **SIZES)
def test_covers_means_that_only_later_keys_are_forbidden(make, sees, new, past, a, b):
    mask = make(a, b)
    first = past - mask.keep(past)
    if mask.covers(new, past + new - first):
        for query in range(past, past + new):
            last = query if mask.causal else past + new - 1
            assert all(sees(a, b, query, key) for key in range(first, last + 1))


@pytest.mark.sample(8, whole=True)
@every_mask
@given(new=st.integers(1, 20), past=lengths, **SIZES)
def test_a_causal_mask_sees_nothing_later(make, sees, new, past, a, b):
    later = any(sees(a, b, query, key) for query in range(new) for key in range(query + 1, new))
    assert not (make(a, b).causal and later)


def test_every_mask_is_here():
    named = {cls for _, cls in inspect.getmembers(archcli.ops, inspect.isclass) if issubclass(cls, Mask)} - {
        Mask,
        CausalPattern,
    }
    assert {type(make(1, 0)) for make, _ in MASKS.values()} == named - OTHERS


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), side=st.integers(1, 5))
def test_windows_of_patches_are_counted_one_by_one(rows, columns, side):
    mask, places = PatchWindows(rows, columns, side), [(i, j) for i in range(rows) for j in range(columns)]
    alike = [[a // side == c // side and b // side == d // side for c, d in places] for a, b in places]
    n = len(places)
    assert mask.pairs(n, 0, n) == sum(map(sum, alike))
    assert mask.allows(torch.arange(n)[:, None], torch.arange(n)[None, :]).tolist() == alike
    assert mask.covers(n, n) == all(map(all, alike))


def test_the_causal_triangle_has_no_floor_as_a_formula():
    n = sympy.Symbol("n", integer=True, positive=True)
    assert Causal().pairs(n, 0, n) == n * (n + 1) / 2
