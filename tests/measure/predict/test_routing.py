"""Uneven routing: experts that tokens reach, against a draw, and what a limit reads."""

import numpy as np
import pytest

import archcli
from archcli.graph.row import Experts
from archcli.wings.serving.predict.rank.routing import POWER, least_reached, reached


def test_one_token_reaches_top_k_and_many_all():
    experts = Experts(128, 4)
    assert reached(experts, 4) == pytest.approx(4)
    assert reached(experts, 4 * 100_000) == pytest.approx(128, rel=0.01)
    # fewer than evenly chosen: 128 (1 - (124 / 128)^32) are 81.7
    assert reached(experts, 4 * 32) < experts.reached(4 * 32)


@pytest.mark.parametrize(("number", "top_k", "tokens"), [(32, 4, 8), (64, 1, 20), (16, 2, 5)])
def test_a_draw_reaches_as_many(number, top_k, tokens):
    """Each expert is taken by a token with a chance that falls as the power of its rank, at most 1."""
    loads = [rank**-POWER for rank in range(1, number + 1)]
    low, high = 0.0, 1e6
    for _ in range(200):  # the scale at which the chances add up to top_k
        scale = (low + high) / 2
        low, high = (low, scale) if sum(min(1, scale * load) for load in loads) > top_k else (scale, high)
    chances = np.minimum(1, low * np.array(loads))
    drawn = np.random.default_rng(7).random((4000, tokens, number)) < chances
    mean = drawn.any(axis=1).sum(axis=1).mean()
    assert reached(Experts(number, top_k), top_k * tokens) == pytest.approx(mean, rel=0.03)


def test_a_rank_has_its_part():
    assert reached(Experts(16, 4, 8), 4 * 4) * 8 == pytest.approx(reached(Experts(128, 4), 4 * 32))
    assert least_reached(Experts(16, 4, 8), 16) == 0.5


def test_a_limit_assumes_no_choice():
    """32 sequences read as many experts at the least as one: 4 of 128 in each layer of gpt-oss-120b."""
    asked = {"device": "dgx-spark", "engine": "llamacpp", "phase": "decode", "past": 1}
    one, many = (
        archcli.predict("gpt-oss-120b", batch_size=size, **asked).totals["time_s"] for size in (1, 32)
    )
    assert many["expected"] > 3 * one["expected"]
    # what is left is the cache of 32 sequences, and the logits
    assert one["floor"] < many["floor"] < 1.2 * one["floor"]
