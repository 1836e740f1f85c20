"""A Spec made in Python.

Checked as a YAML is, frozen, equal by value, and open to unchecked values by two doors alone.
"""

import copy
import pickle

import numpy as np
import pytest

from archcli.errors import ArchError
from archcli.modules import (
    GLU,
    GroupedQueryAttention,
    LayerNorm,
    MultiHeadAttention,
    PreNorm,
    QKNorm,
    RMSNorm,
    Rope,
)
from archcli.modules.spec.base import Module
from table import every_row

GQA = GroupedQueryAttention(n_heads=8, n_kv_heads=2, position=Rope())

REFUSED = {
    "a value": (
        lambda: GroupedQueryAttention(n_heads=0, n_kv_heads=1),
        ["GroupedQueryAttention.n_heads: n_heads must be a whole number above 0, not 0"],
    ),
    "an entry": (
        lambda: MultiHeadAttention(n_heads=8, bias=("q", "x")),
        ['MultiHeadAttention.bias.1: bias.1 must be q, k, v or o, not "x"'],
    ),
    "all that is wrong": (
        lambda: GroupedQueryAttention(n_head=8, n_kv_heads=True),
        [
            (
                "GroupedQueryAttention.n_head: unknown key n_head; "
                "did you mean n_heads, n_kv_heads or v_head_dim?"
            ),
            "GroupedQueryAttention.n_heads: missing key n_heads",
            "GroupedQueryAttention.n_kv_heads: n_kv_heads must be a whole number above 0, not True",
        ],
    ),
    "values side by side": (
        lambda: GroupedQueryAttention(n_heads=8, n_kv_heads=3),
        ["GroupedQueryAttention.n_kv_heads: n_kv_heads 3 does not divide n_heads 8; use 2 or 4"],
    ),
    "another module": (
        lambda: PreNorm(attention=GQA, ffn=GQA, norm=RMSNorm()),
        ["PreNorm.ffn: ffn must be a FeedForward, not a GroupedQueryAttention"],
    ),
    "no module": (
        lambda: PreNorm(attention=GLU(d_ff=8), ffn=GLU(d_ff=8), norm=None),
        [
            "PreNorm.attention: attention must be a Mixer, not a GLU",
            "PreNorm.norm: norm must be a Norm, not None",
        ],
    ),
}


@every_row(("make", "answers"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said(make, answers):
    with pytest.raises(ArchError) as caught:
        make()
    assert sorted(str(problem) for problem in caught.value.problems) == sorted(answers)


def test_values_become_what_the_yaml_would_make_of_them():
    made = MultiHeadAttention(n_heads=8, bias=["q", "k"], scale=1)
    assert (made.bias, made.scale, type(made.scale)) == (("q", "k"), 1.0, float)


def test_it_is_frozen():
    with pytest.raises(AttributeError, match=r"frozen: make another with replace\(n_heads=…\)"):
        GQA.n_heads = 4
    with pytest.raises(AttributeError, match="frozen"):
        del GQA.n_heads
    assert GQA.n_heads == 8


def test_it_is_equal_and_hashed_by_class_and_values():
    same = GroupedQueryAttention(n_heads=8, n_kv_heads=2, position=Rope())
    assert same == GQA
    assert hash(same) == hash(GQA)
    assert {same, GQA} == {GQA}
    assert GQA.replace(n_kv_heads=4) != GQA
    assert RMSNorm(eps=1e-5) != LayerNorm(eps=1e-5)


def test_it_says_what_it_is_made_of():
    assert repr(QKNorm(norm=RMSNorm())) == (
        "QKNorm(per='head', when='before_rope', norm=RMSNorm(eps=1e-06, kind='rmsnorm', offset=0, "
        "weight=True))"
    )


def test_it_is_copied_and_pickled():
    assert copy.deepcopy(GQA) == GQA
    assert pickle.loads(pickle.dumps(GQA)) == GQA  # noqa: S301


def test_replace_and_unchecked_take_what_no_constructor_would():
    assert GQA.replace(n_heads="H").n_heads == "H"
    made = GroupedQueryAttention.unchecked(n_heads="H", n_kv_heads="K")
    assert (made.n_heads, made.n_kv_heads, made.causal) == ("H", "K", True)


def test_a_field_that_is_stated_again_without_a_default_is_required():
    class Narrow(QKNorm):
        per: str

    assert Narrow.fields["per"].required
    assert not QKNorm.fields["per"].required
    assert list(Narrow.fields) == list(QKNorm.fields)


def test_a_field_of_two_bases_is_that_of_the_nearer():
    class Wide(Module):
        size: int = 1

    class Near(Wide):
        size: int = 2

    class Far(Wide):
        pass

    class Both(Far, Near):
        pass

    assert Both.unchecked().size == 2


def test_whole_numbers_of_numpy_are_fields():
    attention = GroupedQueryAttention(n_heads=np.int64(8), n_kv_heads=np.uint8(2))
    assert attention == GroupedQueryAttention(n_heads=8, n_kv_heads=2)
    assert type(attention.n_heads) is int
    assert type(RMSNorm(eps=np.float64(1e-5)).eps) is float


def test_numbers_of_thousands_of_digits_are_refused():
    with pytest.raises(ArchError, match="n_heads must have at most 40 digits"):
        GroupedQueryAttention(n_heads=10**5000, n_kv_heads=2)
    with pytest.raises(ArchError, match="kind must be gqa, not a number of 16,610 bits"):
        GroupedQueryAttention(n_heads=8, n_kv_heads=2, kind=10**5000)
