"""Squeezed positions of a wave and those that are made again: figures worked out, and refusals."""

import pytest
import torch

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request

FRONT = {
    "kind": "convolved_wave",
    "channels": [6],
    "kernels": [4],
    "strides": [3],
    "position_kernel": 2,
    "position_groups": 2,
    "squeeze": 3,
}
D, SQUEEZE = 8, 3


def network(front=FRONT, **more):
    return {
        "kind": "media_encoder",
        "d_model": D,
        "norm": "layernorm",
        "front_end": front,
        "final_norm": False,
        "upsampling": "gelu",
        "groups": [{"n_layers": 1, "layer": {"kind": "post_norm", "ffn": {"kind": "mlp", "d_ff": 8}}}],
        **more,
    }


def test_flops_are_those_of_the_positions_that_are_left():
    # 37 samples are (37 - 4) // 3 + 1 = 12 positions, and 12 // 3 of them are left
    positions, left = 12, 4
    # an even kernel makes one position more than are kept
    convolved = 2 * positions * 4 * 6 + 2 * (left + 1) * D * D // 2 * 2
    products = positions * 6 * D + left * 2 * D * 8 + left * D * SQUEEZE * D
    report = archcli.count_flops(network(), Request(media=(Medium("samples", (37,)),)))
    assert report.totals["matmul_flops"] == convolved + 2 * products
    assert report.totals["media"][0]["tokens"] == positions


def test_a_rest_of_positions_is_made_of_zeros():
    # 43 samples are 14 positions: 4 of 3, and 2 more
    made = archcli.build(network()).eval()(torch.randn(1, 43))
    assert made.shape == (1, 14, D)
    assert made[:, 12:].eq(0).all()
    assert made[:, :12].ne(0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"front": {**FRONT, "position_layers": 2}}, "positions of one convolution"),
        ({"front": {key: FRONT[key] for key in FRONT if key != "squeeze"}}, "it squeezes none"),
    ],
    ids=["layers", "nothing"],
)
def test_what_cannot_be_squeezed_or_made_again_is_refused(given, message):
    with pytest.raises(ArchError, match=message):
        archcli.count_params(network(**given))


def test_a_formula_of_a_wave_has_no_symbol_for_the_layers_of_its_positions():
    explained = archcli.explain(network()).totals
    assert "position_kernel" in explained["symbols"]
    assert explained["value"] == archcli.count_params(network()).totals["params"]
