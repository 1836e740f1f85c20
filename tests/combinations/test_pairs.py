"""Every pair of kinds of mixer in one pattern.

Through the cache it computes what one pass computes, and all witnesses count the same.
"""

from itertools import combinations, product

import pytest
import torch

from archcli.errors import ArchError
from archcli.load.source import load_text
from asking import ask, failures
from combinations.mixers import ENCODING, MIXERS, encoder, model
from combinations.steps import stepwise
from zoo import V, assert_close, built

torch.set_num_threads(1)


def members(name):
    """The mixers that a layer with this one is made of."""
    [(key, mixer)] = [block.mixing for block in load_text(model(name), "one.yaml").model.groups[0].blocks]
    return [member for _, member in mixer.members(key)]


LIMITED = {"windowed", "chunked", "conv_gqa-windowed", "cca-windowed", "compressed", "compressed-indexed"}
"""Mixers that see part of the cache, beside which no layer's bias can be another's."""

SCORELESS = {name for name in MIXERS if not any(mixer.has_scores for mixer in members(name))}
"""Mixers without scores, to which a bias could be added."""

PLACES = {name: place for place, name in enumerate(MIXERS)}


def ordered(pair):
    """A pair of mixers, turned around where the sum of their places is odd: each comes first and second."""
    return pair[:: -1 if sum(PLACES[name] for name in pair) % 2 else 1]


def bias_of(pair):
    """A bias for every second of the pairs that can share one."""
    biased = not LIMITED & {*pair} and not {*pair} <= SCORELESS
    return "buckets" if biased and sum(PLACES[name] for name in pair) % 4 < 2 else "none"


PAIRS = [*map(ordered, combinations(MIXERS, 2)), *((name, name) for name in MIXERS)]
CASES = [(pair, bias_of(pair)) for pair in PAIRS]
every_pair = pytest.mark.parametrize(
    ("pair", "bias"), CASES, ids=["-".join((*pair, bias)) for pair, bias in CASES]
)


def combined(first, second, bias):
    return load_text(model(first, second, bias=bias), "pair.yaml").model


@pytest.mark.sample(1)
@every_pair
def test_a_pair_decodes_like_its_full_pass(pair, bias):
    """On tokens of which none comes twice: a gate on values may choose any of equal ones."""
    made = built(combined(*pair, bias), attention="eager").double()  # some scans amplify what fp32 rounds
    ids = torch.randperm(V, generator=torch.Generator().manual_seed(1))[:18].view(2, 9)
    with torch.no_grad():
        full = made(ids)
        assert_close(stepwise(made, ids, 5), full[:, 4:])


@pytest.mark.long
@pytest.mark.sample(1)
@every_pair
def test_all_witnesses_count_a_pair_alike(pair, bias):
    assert failures(ask(combined(*pair, bias))) == []


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("pair", [*product(ENCODING, repeat=2)], ids="-".join)
def test_all_witnesses_count_a_pair_of_an_encoder_alike(pair):
    assert failures(ask(load_text(encoder(*pair), "pair.yaml").model)) == []


NO_BIAS = {
    "mha-windowed": "layers that share a score bias need equal n_heads, no window and no chunk",
    "chunked-linear": "layers that share a score bias need equal n_heads, no window and no chunk",
    "linear-performer": "no layer has scores to which a bias could be added; leave score_bias out",
}


@pytest.mark.parametrize("pair", NO_BIAS)
def test_where_no_bias_can_be_shared_it_is_refused(pair):
    with pytest.raises(ArchError, match=NO_BIAS[pair]):
        combined(*pair.split("-"), "buckets")
