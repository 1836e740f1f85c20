"""Attention to keys that a gate on their values chooses: what may not stand beside it, and its training."""

import pytest
import torch

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.modules import CrossAttention, ValueGate
from combinations.mixers import MIXERS, model
from zoo import assert_close, built, tokens

torch.set_num_threads(1)

GATED = MIXERS["value-gated"]
BESIDE = {
    "window": ("window: 4", "window"),
    "index": ("index: {top_k: 2, n_heads: 2, head_dim: 8}", "index"),
    "an encoder": ("causal: false", "causal: false"),
    "relu": ("normalizer: relu", "normalizer: relu"),
}


def spec_of(mixer):
    return load_text(model("value-gated").replace(GATED, mixer), "f").model


@pytest.mark.parametrize("name", BESIDE)
def test_a_gate_chooses_alone(name):
    field, named = BESIDE[name]
    with pytest.raises(ArchError, match=f"value_gate alone chooses keys .*, not {named} as well"):
        spec_of(GATED.replace("value_gate", f"{field}, value_gate"))


@pytest.mark.parametrize("position", ["{kind: shaw, max_distance: 3}", "{kind: buckets, n_buckets: 4}"])
def test_no_position_adds_a_bias_beside_it(position):
    with pytest.raises(ArchError, match="value_gate alone"):
        spec_of(GATED.replace("position: rope", f"position: {position}"))


def test_cross_attention_has_no_gate():
    with pytest.raises(ArchError, match="value_gate chooses of the tokens of its own stream"):
        CrossAttention(n_heads=4, value_gate=ValueGate(top_k=3))


def test_gradients_are_numbers_and_reach_the_gate():
    made, ids = built(spec_of(GATED), attention="eager"), tokens()
    made.train()
    made(ids).square().mean().backward()
    assert [path for path, weight in made.named_parameters() if not weight.grad.abs().sum() > 0] == []


@pytest.mark.long
def test_it_compiles_as_one_graph():
    made, ids = built(spec_of(GATED), attention="eager"), tokens(length=64)
    torch.compiler.reset()
    with torch.no_grad():
        assert_close(torch.compile(made, fullgraph=True, backend="aot_eager")(ids), made(ids))
