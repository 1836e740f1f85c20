"""Bytes kept for the backward in closed form and for many shapes: what counting each alone gives."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.load.source import load
from archcli.modules import GLU, Group, MixtureOfExperts, substitute
from archcli.wings.shapes.symbolic import candidates
from archcli.wings.shapes.symbolic.formula import activation_memory, formula
from archcli.wings.shapes.symbolic.sweep import sweep
from small import attention, decoder, layer

BF16, FP32 = 2, 4
HEADS = attention(head_dim=8)  # a GPU's kernels pad narrower ones
DENSE = decoder(Group(n_layers=3, layer=layer(HEADS)))
MIXTURE = decoder(
    Group(n_layers=3, layer=layer(HEADS, ffn=MixtureOfExperts(n_experts=8, top_k=2, expert=GLU(d_ff=12))))
)
NAMES = {"d_model": "d_model", "d_ff": "groups.0.layer.ffn.d_ff", "n_layers": "groups.0.n_layers"}


@cache
def closed_form(name):
    return formula({"small": DENSE}.get(name) or load(name).model, seq_len=1024)


def replaced(model, **sizes):
    return substitute(model, {NAMES[name]: value for name, value in sizes.items()})


@pytest.mark.long
@given(st.integers(3, 60), st.integers(1, 8), st.integers(1, 100), st.integers(1, 9), st.integers(2, 70))
def test_the_closed_form_at_any_sizes(n_layers, d_model, d_ff, batch, seq):
    closed = closed_form("small")
    sizes = {"n_layers": n_layers, "d_model": 8 * d_model, "d_ff": d_ff}
    values = {
        symbol: {**sizes, "batch_size": batch, "seq_len": seq}.get(symbol.name, value)
        for symbol, value in closed.values.items()
    }
    assert closed.kept_bytes.subs(values) == activation_memory(replaced(DENSE, **sizes), batch, seq)


@pytest.mark.long
@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
@given(
    st.lists(st.tuples(st.integers(3, 60), st.integers(1, 8), st.integers(1, 100)), min_size=1, max_size=5)
)
def test_each_candidate_as_if_it_were_alone(model, shapes):
    n_layers, eighths, d_ff = np.array(shapes).T
    name = "d_ff" if model is DENSE else None
    arrays = {"n_layers": n_layers, "d_model": 8 * eighths} | ({"d_ff": d_ff} if name else {})
    kept = sweep(model, arrays, batch_size=2, seq_len=9).kept_bytes
    for i in range(len(shapes)):
        alone = replaced(model, **{name: int(array[i]) for name, array in arrays.items()})
        assert kept[i] == activation_memory(alone, 2, 9)


def test_deep_models_are_run_together(monkeypatch):
    """Where the first, the middle and the last layers are apart, no depth is run on its own."""
    runs, make = [], candidates.CandidateRun
    monkeypatch.setattr(candidates, "CandidateRun", lambda length: runs.append(length) or make(length))
    swept = sweep(DENSE, {"n_layers": np.arange(4, 100)}, seq_len=9)
    assert swept.kept_bytes[1] > swept.kept_bytes[0]
    assert runs == [96, 96]


def test_the_closed_form_of_gpt2_by_hand():
    """Of each layer the input and output of both norms and the activation, q, k, v and their mix."""
    closed = closed_form("gpt2")
    layers, d, heads, tokens = 12, 768, 12, 1024
    per_token = BF16 * (2 * d + 2 * d + 3 * d + d + 4 * d + 4 * d) + FP32 * (2 + 2 + heads)
    seeds = 2 * 8
    final = tokens * (BF16 * d + 2 * FP32) + tokens * BF16 * d
    positions = 8 * tokens
    by_hand = layers * (tokens * per_token + seeds) + final + positions
    assert closed.kept_bytes.subs(closed.values) == by_hand
