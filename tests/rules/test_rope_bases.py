"""POS002's least bases.

The published table, Eq. 11 of arXiv:2405.14591 evaluated anew, and what holds beyond them.
"""

import numpy as np
import pytest

from archcli.load.source import load, load_text
from archcli.rules import all_rules
from archcli.rules.base import Case, example
from archcli.rules.position import BASES, CONTEXTS, least_base
from table import every_row

DIMS = sorted(set(BASES) - {128})


def nowhere_negative(base, dims, context):
    """sum_i cos(m base^(-2i/dims)) >= 0 for m = 0 ... context."""
    m = np.arange(context + 1)[:, None]
    return bool((np.cos(m * base ** (-np.arange(0, dims, 2) / dims)).sum(1) >= 0).all())


def least_of_two_digits(dims, context):
    bases = (lead * 10.0**power for power in range(1, 12) for lead in range(10, 100))
    return next(base for base in bases if nowhere_negative(base, dims, context))


def stops(text):
    loaded = load_text(text, "example.yaml")
    return [finding.expected for finding in all_rules()["POS002"].check(Case(loaded.model))]


def rope(theta, head_dim, more=""):
    return f"{{kind: mha, n_heads: 4, head_dim: {head_dim}, position: {{kind: rope, theta: {theta}{more}}}}}"


@pytest.mark.sample(1)
@pytest.mark.parametrize("dims", DIMS)
def test_the_table_is_equation_11_evaluated(dims):
    assert [least_of_two_digits(dims, context) for context in CONTEXTS[:2]] == list(BASES[dims][:2])


@pytest.mark.long
def test_the_published_row_is_the_papers_table_2():
    published = "4.3e3 1.6e4 2.7e4 8.4e4 3.1e5 6.4e5 2.1e6 7.8e6 3.6e7 6.4e7 5.1e8"
    assert [f"{base:.1e}".replace("e+0", "e") for base in BASES[128]] == published.split()
    assert [least_of_two_digits(128, context) for context in CONTEXTS[:2]] == [4.3e3, 1.6e4]


def test_bounds_grow_with_the_context_and_hold_beyond_the_table():
    for dims, bases in BASES.items():
        assert list(bases) == sorted(bases)
        assert least_base(dims, CONTEXTS[-1]) == least_base(dims, 10 * CONTEXTS[-1]) == bases[-1]
        assert least_base(dims, 1023) is None
    assert 2.7e4 < least_base(128, 6000) < 8.4e4
    assert least_base(72, 4096) == BASES[80][2]  # lower than that of 72 dims
    assert least_base(512, 4096) is None


@every_row("context", [131_072, 1_048_576, 16_777_216])
@every_row("dims", [16, 64, 80, 128, 256])
def test_no_long_context_passes_with_a_base_of_ten_thousand(context, dims):
    assert stops(example(attention=rope(10_000, dims), max_seq_len=str(context)))


def test_scaled_frequencies_are_spared():
    assert stops(example(attention=rope(10_000, 128), max_seq_len="1048576")) == ["at least 510,000,000"]
    assert not stops(
        example(attention=rope(10_000, 128, ", scaling: {kind: linear, factor: 8}"), max_seq_len="1048576")
    )


def test_a_head_turned_in_part_goes_by_its_rotary_dims():
    text = example(attention=rope(10_000, 128, ", rotary_dim: 64"), max_seq_len="1048576")
    assert stops(text) == ["at least 3,900,000,000"]


def test_a_million_tokens_on_a_shipped_shape():
    bounded = load("qwen2-7b", ["max_seq_len=1048576", "theta=10000"]).model
    assert [finding.value for finding in all_rules()["POS002"].check(Case(bounded))] == [10_000.0]
