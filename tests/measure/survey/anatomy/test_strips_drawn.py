"""Strips: cells, braces of runs and periods, and boxes before and after the layers."""

import pytest

from archcli.load.source import load, load_text
from archcli.measure.survey.stacks import Period, periods
from archcli.wings.drawing.anatomy.anatomy import anatomy

LAYER = "{kind: pre_norm, attention: {kind: gqa, n_heads: 2, n_kv_heads: 1}, ffn: {kind: glu, d_ff: %d}}"


def strip(name):
    return anatomy(load(name).model).strips[-1]


def test_three_dense_layers_and_mixtures_are_two_runs():
    found = strip("deepseek-v3")
    assert [(run.first, run.end, run.label) for run in found.runs] == [(0, 3, "3 ×"), (3, 61, "58 ×")]
    assert [cell.networks[0][0] for cell in found.cells] == ["dense"] * 3 + ["experts"] * 58
    assert (found.before, found.after, found.beside) == (("embedding",), ("norm", "LM head"), ("MTP",))


def test_a_pattern_is_one_brace():
    found = strip("qwen3-next-80b-a3b")
    assert [run.label for run in found.runs] == ["12 × (3 + 1)"]
    assert [cell.mixers[0][0] for cell in found.cells[:4]] == ["recurrent"] * 3 + ["attention"]


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ("aaaa", [Period(0, 1, (4,))]),
        ("aabbb", [Period(0, 1, (2,)), Period(2, 1, (3,))]),
        ("aabaabaab", [Period(0, 3, (2, 1))]),
        ("abababa", [Period(0, 3, (1, 1)), Period(6, 1, (1,))]),
        ("xxaabaabaab", [Period(0, 1, (2,)), Period(2, 3, (2, 1))]),
        ("aaaabaabaab", [Period(0, 1, (2,)), Period(2, 3, (2, 1))]),
        ("abcd", [Period(i, 1, (1,)) for i in range(4)]),
    ],
)
def test_runs_and_patterns(kinds, found):
    assert periods(kinds) == found


def stacked(widths):
    groups = "".join(f"  - {{n_layers: 1, layer: {LAYER % width}}}\n" for width in widths)
    return load_text(
        f"name: many\nvocab_size: 64\nd_model: 8\nnorm: rmsnorm\ngroups:\n{groups}", "many"
    ).model


@pytest.mark.long
def test_more_than_110_layers_are_runs():
    (of_runs,) = anatomy(stacked([16] * 60 + [24] * 60)).strips
    assert [(cell.first, cell.count, cell.kind) for cell in of_runs.cells] == [
        (0, 60, "layers.0"),
        (60, 60, "layers.60"),
    ]


@pytest.mark.long
def test_more_than_110_different_layers_are_a_run_of_their_hues():
    (of_hues,) = anatomy(stacked(range(1, 121))).strips
    ((cell),) = of_hues.cells
    assert (cell.count, cell.mixers, cell.networks) == (120, (("attention", ""),), (("dense", ""),))


def test_an_encoder_decoder_has_two_strips():
    encoder, decoder = anatomy(load("whisper-small").model).strips
    assert (encoder.title, encoder.before) == ("encoder", ("convolutions", "fixed positions"))
    assert (decoder.title, decoder.before, decoder.after) == (
        "decoder",
        ("embedding", "learned positions"),
        ("norm", "LM head, tied"),
    )
