"""Experts that compute nothing: expected costs as exact fractions, by ints, symbols and arrays; the run."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch

import archcli
from archcli.measure.passes import forward_pass
from archcli.modules import substitute

D, FF, LAYERS, EXPERTS, ZERO, CHOSEN = 32, 16, 2, 6, 5, 2
BESIDE = f"""
name: beside
vocab_size: 64
d_model: {D}
norm: rmsnorm
groups:
  - n_layers: {LAYERS}
    layer:
      kind: shortcut_moe
      attention: {{kind: mha, n_heads: 4, position: rope}}
      dense: {{kind: glu, d_ff: 48}}
      ffn:
        kind: moe
        n_experts: {EXPERTS}
        top_k: {CHOSEN}
        expert: {{kind: glu, d_ff: {FF}}}
        router: {{zero_experts: {ZERO}, normalized: false, scale: 2.0}}
"""
SHARE = Fraction(CHOSEN * EXPERTS, EXPERTS + ZERO)
OF_ONE = 3 * D * FF


@pytest.fixture
def beside(tmp_path):
    path = tmp_path / "beside.yaml"
    path.write_text(BESIDE)
    return archcli.load(path)


def test_an_expert_computes_for_its_share_of_the_choices(beside):
    report = archcli.count_flops(beside, seq_len=7)
    exact = LAYERS * 7 * SHARE * 2 * OF_ONE
    assert report.totals["by_component"]["experts"] == round(exact)
    assert report.totals["expected"]
    assert any("depends on the router" in note for note in report.notes)
    assert archcli.count_flops(beside, seq_len=11).totals["by_component"]["experts"] == 11 * LAYERS * (
        SHARE * 2 * OF_ONE
    )


def test_every_expert_is_stored_and_a_share_is_active(beside):
    totals = archcli.count_params(beside).totals
    assert totals["by_group"]["experts"] == LAYERS * EXPERTS * OF_ONE
    assert totals["by_group"]["router"] == LAYERS * D * (EXPERTS + ZERO)
    idle = LAYERS * (EXPERTS - SHARE) * OF_ONE
    assert abs(totals["params"] - idle - totals["active_params"]) < LAYERS * 3


def test_symbols_and_arrays_count_what_ints_count(beside):
    sizes = {"n_experts": 6, "top_k": 2, "router.zero_experts": 5}
    paths = {f"groups.0.layer.ffn.{name}": value for name, value in sizes.items()}
    symbols = {path: sympy.Symbol(path.rpartition(".")[2], positive=True, integer=True) for path in paths}
    formula = forward_pass(substitute(beside, symbols), 1, 7).flops()[0]
    arrays = {path: np.array([value, value + 1, value + 3]) for path, value in paths.items()}
    many = forward_pass(substitute(beside, arrays), 1, 7).flops()[0]
    for i in range(3):
        ints = {path: int(array[i]) for path, array in arrays.items()}
        exact = forward_pass(substitute(beside, ints), 1, 7).flops()[0]
        assert many[i] == exact
        assert formula.subs({symbols[path]: value for path, value in ints.items()}) == exact


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("taken", ["all", "none"])
def test_zero_experts_return_the_token(beside, taken):
    """With every choice, or none, on zero experts: the layer as it is without experts, or without zeros."""
    torch.manual_seed(0)
    layer = archcli.build(beside).layers[0].ffn.eval()
    x = torch.randn(1, 5, D)
    with torch.no_grad():
        router = layer.router.weight
        router.zero_()
        router[EXPERTS:] = 0.0
        bias = torch.full((EXPERTS + ZERO,), -1.0)
        bias[EXPERTS:] = 1.0 if taken == "all" else -2.0
        router[:, 0] = bias
        x[..., 0] = 9.0
        scores = (x @ router.t()).softmax(-1)
        weights, index = scores.topk(CHOSEN)
        assert bool((index >= EXPERTS).all()) is (taken == "all")
        out = layer(x)
    if taken == "all":
        assert torch.allclose(out, 2.0 * weights.sum(-1, keepdim=True) * x, atol=1e-6)
    else:
        assert out.shape == x.shape
        assert not torch.allclose(out, 2.0 * weights.sum(-1, keepdim=True) * x, atol=1e-3)


def test_a_step_of_training_reaches_experts_and_router(beside):
    torch.manual_seed(0)
    model = archcli.build(beside)
    model(torch.randint(64, (2, 9))).square().mean().backward()
    reached = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert {name for name, _ in model.named_parameters()} == reached


@pytest.mark.long
def test_a_compiled_graph_of_fixed_shapes_gives_the_same(beside):
    torch.manual_seed(0)
    torch._dynamo.reset()  # other tests of this process have compiled forwards of the same class
    model, tokens = archcli.build(beside).eval(), torch.randint(64, (1, 9))
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert torch.allclose(compiled(tokens), model(tokens), atol=1e-5)
