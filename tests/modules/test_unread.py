"""Parameters that no pass reads are counted, cost nothing, and are weights of the built model."""

import pytest

import archcli
from archcli.errors import ArchError
from table import every_row

LAYER = {"kind": "pre_norm", "attention": {"kind": "mha", "n_heads": 2}, "ffn": {"kind": "mlp", "d_ff": 8}}
HELD = {"gate": 1, "matrix": [3, 5]}


def of(layer=LAYER, **more):
    base = {"vocab_size": 11, "d_model": 4, "norm": "rmsnorm"}
    return {**base, "groups": [{"n_layers": 3, "layer": layer}], **more}


PLAIN = of()
HOLDING = of({**LAYER, "unread": HELD}, unread={"table": [7, 4]})


def test_they_are_parameters_and_nothing_else():
    added = 3 * (1 + 15) + 28
    plain, holding = archcli.count_params(PLAIN).totals, archcli.count_params(HOLDING).totals
    assert holding["params"] == plain["params"] + added
    for report in (archcli.count_flops, archcli.count_kv_cache):
        assert report(HOLDING).totals == report(PLAIN).totals


def test_a_parallel_layer_holds_them_too():
    plain, holding = (of({**LAYER, "kind": "parallel", **held}) for held in ({}, {"unread": HELD}))
    added = archcli.count_params(holding).totals["params"] - archcli.count_params(plain).totals["params"]
    assert added == 3 * (1 + 15)


def test_an_encoder_decoder_holds_them_too():
    half = {"groups": [{"n_layers": 1, "layer": LAYER}]}
    crossed = {"groups": [{"n_layers": 1, "layer": {**LAYER, "cross_attention": {"n_heads": 2}}}]}
    plain = {k: v for k, v in of().items() if k != "groups"} | {"encoder": half, "decoder": crossed}
    given = {"kind": "encoder_decoder", **plain}
    holding = {**given, "unread": {"table": [11, 4]}}
    added = archcli.count_params(holding).totals["params"] - archcli.count_params(given).totals["params"]
    assert added == 11 * 4


def test_a_layer_may_hold_them_and_do_nothing():
    idle = of({"kind": "pre_norm", "unread": HELD})
    assert archcli.count_params(idle).totals["params"] == 3 * 16 + 2 * 11 * 4 + 4
    assert archcli.count_kv_cache(idle).totals["elements"] == 0


@pytest.mark.torch
def test_they_are_weights_of_the_built_model():
    from archcli.wings.running.runtime.model.build import build_model

    model = build_model(archcli.load(HOLDING))
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert shapes["table.weight"] == (7, 4)
    assert [shapes[f"layers.{i}.matrix.weight"] for i in range(3)] == [(3, 5)] * 3


@every_row("held", [{"a": 0}, {"a": []}, {"a b": 3}, {"a": [2, -1]}])
@every_row("where", ["layer", "model"])
def test_they_have_a_size_and_a_plain_name(held, where):
    given = of({**LAYER, "unread": held}) if where == "layer" else of(unread=held)
    with pytest.raises(ArchError, match="needs a size above 0 and a plain name"):
        archcli.load(given)
