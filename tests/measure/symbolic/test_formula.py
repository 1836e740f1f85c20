"""Closed forms: the ones known by heart, and that the values put in give the counts."""

import pytest
import sympy

from archcli.measure.passes import forward_pass, prefill_pass
from archcli.modules import (
    GLU,
    AdaptiveHead,
    Group,
    HierarchicalHead,
    MixtureOfExperts,
    MultiTokenPrediction,
    SampledHead,
)
from archcli.wings.shapes.symbolic.formula import formula
from small import NORM, attention, decoder, layer

L, D, F, V, H, K, d = sympy.symbols(
    "n_layers d_model d_ff vocab_size n_heads n_kv_heads head_dim", integer=True, positive=True
)
B, S, w = sympy.symbols("batch_size seq_len window", integer=True, positive=True)


def same(a, b):
    return sympy.expand(a - b) == 0


def test_a_llama_in_its_own_words():
    found = formula(decoder())
    assert same(found.params, D * (2 * V + 1) + L * (2 * D * d * (H + K) + 3 * D * F + 2 * D))
    projections = 2 * B * S * (D * V + L * (2 * D * d * (H + K) + 3 * D * F))
    assert same(found.matmul_flops, projections + L * 4 * B * H * d * S * (S + 1) / 2)
    assert same(found.kv_elements, 2 * B * L * K * d * S)


def test_a_dense_mask_counts_the_square():
    exact, dense = formula(decoder()).matmul_flops, formula(decoder(), unmasked=True).matmul_flops
    assert same(dense - exact, 4 * L * B * H * d * (S * S - S * (S + 1) / 2))


def test_even_divisions_lose_their_floor():
    found = formula(decoder(Group(n_layers=3, layer=layer(attention(head_dim=None)))))
    assert same(found.params, D * (2 * V + 1) + L * (2 * D * D + 2 * D * K * D / H + 3 * D * F + 2 * D))


@pytest.mark.long
def test_a_pattern_that_fills_the_layers_leaves_no_rounding():
    model = decoder(Group(n_layers=4, pattern=(layer(attention(window=3)), layer())))
    assert same(formula(model).kv_elements, 2 * B * K * d * L / 2 * (S + sympy.Min(S, w)))
    odd = decoder(Group(n_layers=3, pattern=(layer(attention(window=3)), layer())))
    assert formula(odd).params.has(sympy.floor)


def test_names_carry_their_path_where_values_differ():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5), shared=GLU(d_ff=7))
    found = formula(decoder(Group(n_layers=1, layer=layer()), Group(n_layers=2, layer=layer(ffn=moe))))
    names = {symbol.name: value for symbol, value in found.values.items()}
    assert {
        "groups_0_n_layers": 1,
        "groups_1_n_layers": 2,
        "expert_d_ff": 5,
        "shared_d_ff": 7,
        "ffn_d_ff": 12,
    }.items() <= names.items()
    assert names["n_heads"] == 4


HEADS = {
    "adaptive": (
        AdaptiveHead(cutoffs=(20, 40), cluster_shares=(0.5, 0.3, 0.2), div_value=2),
        22 * D + D // 2 * (D + 20) + D // 4 * (D + V - 40),
    ),
    "hierarchical": (
        HierarchicalHead(n_classes=5),
        sympy.Symbol("n_classes", integer=True, positive=True) * D + V * D,
    ),
    "sampled": (SampledHead(n_samples=9), V * D),
}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", HEADS)
def test_a_head_in_its_own_words(name):
    head, params = HEADS[name]
    found, plain = formula(decoder(head=head)), formula(decoder(head=None))
    values = found.values
    written = params.subs(sympy.Symbol("div_value", integer=True, positive=True), 2)
    assert (found.params - plain.params).subs(values) == written.subs(values)
    assert {"vocab_size", "d_model"} <= {symbol.name for symbol in (found.params - plain.params).free_symbols}


def test_what_only_training_runs_is_in_no_formula():
    plain, more = (
        formula(decoder()),
        formula(decoder(mtp=MultiTokenPrediction(norm=NORM, layer=layer(ffn=GLU(d_ff=7))))),
    )
    assert more == plain


@pytest.mark.long
@pytest.mark.parametrize("seq_len", [1, 3, 100])
def test_the_values_put_in_give_the_counts(seq_len):
    model = decoder(Group(n_layers=3, pattern=(layer(attention(window=3)), layer(attention(chunk=4)))))
    found = formula(model, batch_size=2, seq_len=seq_len)
    counted = forward_pass(model, 2, seq_len)
    assert found.params.subs(found.values) == counted.params()
    assert (found.matmul_flops.subs(found.values), found.other_flops.subs(found.values)) == counted.flops()
    assert found.kv_elements.subs(found.values) == prefill_pass(model, 2, seq_len).cached()


def test_a_formula_prints_its_equations_and_where_they_were_checked():
    closed = formula(decoder(Group(n_layers=3, layer=layer())), seq_len=4096)
    lines = str(closed).splitlines()
    assert [line.split(" = ")[0].strip() for line in lines[:-1]] == list(closed._fields[:-1])
    assert lines[0] == f"params       = {closed.params}"
    assert lines[-1].endswith("batch_size 1, seq_len 4,096")
    assert closed._repr_latex_().count("&=") == 4
