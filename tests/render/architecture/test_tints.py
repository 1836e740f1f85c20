"""Tints of a drawing: linear in the shares of the parts, and what is printed in their panels."""

import re

import pytest

import archcli
from archcli.load.source import load
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.picture.architecture.page.tints import PALE, tints

BOX = re.compile(r'class="tint-(\w+) s-\1 thin" fill-opacity="([\d.]+)"')


@pytest.mark.parametrize("shown", ["params", "flops", "bytes"])
def test_tints_are_linear_in_the_shares(shown):
    drawn = anatomy(load("deepseek-v3").model, shown)
    strengths, shares = tints(drawn), {part.letter: part.share.value for part in drawn.parts}
    largest = max(shares.values())
    assert max(strengths.values()) == 1
    assert strengths == {
        letter: pytest.approx(PALE + (1 - PALE) * share / largest) for letter, share in shares.items()
    }


def test_what_has_no_share_has_no_tint():
    drawn = archcli.draw("deepseek-v3", show="kv").svg()
    assert {(hue, float(opacity)) for hue, opacity in BOX.findall(drawn)} == {
        ("attention", 1.0),
        ("dense", 0.0),
        ("experts", 0.0),
    }
    assert "stronger tint: more cache" in drawn


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(
    ("shown", "printed"),
    [("params", "176M"), ("flops", "722 GFLOP"), ("bytes", "10.5 GiB")],
)
def test_a_panel_prints_what_is_shown(shown, printed):
    drawn = archcli.draw("llama-3.1-8b", show=shown).svg()
    assert f">{printed}</tspan>" in drawn
    assert re.search(r"<title>all layers with B: 7\d\.\d% of the ", drawn)


def test_a_model_of_one_part_has_no_legend_of_tints():
    assert "stronger tint" not in archcli.draw("mamba-130m").svg()
