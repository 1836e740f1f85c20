"""What positions do, as their papers say.

RoPE knows distance alone, the sinusoid's worked example, ALiBi's slopes.
"""

import math

import pytest
import torch

from archcli.modules import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NoScaling,
    NTKScaling,
    Rope,
    YarnScaling,
)
from archcli.ops import Attend, Causal, RotaryTable, Rotate, Sinusoid
from table import every_row

torch.set_num_threads(1)
R = 8
SCALINGS = {
    "none": NoScaling(),
    "linear": LinearScaling(factor=4.0),
    "ntk": NTKScaling(factor=4.0),
    "dynamic_ntk": DynamicNTKScaling(factor=4.0, original_max_seq_len=16),
    "llama3": Llama3Scaling(factor=8.0, original_max_seq_len=16),
    "yarn": YarnScaling(factor=4.0, original_max_seq_len=16),
    "longrope": LongRopeScaling(
        factor=4.0,
        original_max_seq_len=16,
        short_factor=(1.0, 1.1, 1.2, 1.3),
        long_factor=(1.0, 2.0, 4.0, 8.0),
    ),
}


def table(rope, positions):
    return RotaryTable("table", R, rope, rope.scaling.amplitude).run(torch, {}, torch.as_tensor(positions))


def turned(rope, x, positions):
    return Rotate("turn", rope.pairing).run(torch, {}, x, *table(rope, positions))


@every_row("pairing", ["half", "interleaved"])
@every_row("scaling", SCALINGS)
def test_scores_depend_on_distance_alone(scaling, pairing):
    rope = Rope(theta=100.0, pairing=pairing, scaling=SCALINGS[scaling])
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 5, 1, R).unbind()
    newest = 63  # what dynamic scalings go by: the same for all

    def scores(first):
        places = [*range(first, first + 5), newest]
        pad = torch.zeros(1, 1, 1, R)
        left, right = (turned(rope, torch.cat([x, pad], 1), places)[0, :5, 0] for x in (q, k))
        return left @ right.T

    assert torch.allclose(scores(0), scores(11), atol=1e-4)
    assert not torch.allclose(scores(0), (q[0, :, 0] @ k[0, :, 0].T), atol=1e-2)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_position_zero_turns_nothing_and_turning_keeps_lengths(pairing):
    rope, x = Rope(pairing=pairing), torch.randn(1, 4, 2, R)
    out = turned(rope, x, range(4))
    assert torch.allclose(out[:, 0], x[:, 0])
    assert torch.allclose(out.norm(dim=-1), x.norm(dim=-1))


def test_pairs_turn_by_their_own_angle():
    theta, position = 100.0, 3
    x = torch.zeros(1, 1, 1, 4)
    x[..., 0] = 1.0
    half = turned_at(Rope(theta=theta), x, position)
    apart = turned_at(Rope(theta=theta, pairing="interleaved"), x, position)
    assert half == pytest.approx([math.cos(3.0), 0.0, math.sin(3.0), 0.0], abs=1e-6)
    assert apart == pytest.approx([math.cos(3.0), math.sin(3.0), 0.0, 0.0], abs=1e-6)
    x = torch.zeros(1, 1, 1, 4)
    x[..., 1] = 1.0  # pair 1 turns by theta^(-2/4) = 1/10 of the position
    assert turned_at(Rope(theta=theta), x, position) == pytest.approx(
        [0.0, math.cos(0.3), 0.0, math.sin(0.3)], abs=1e-6
    )


def turned_at(rope, x, position):
    cos, sin = RotaryTable("table", 4, rope).run(torch, {}, torch.tensor([position]))
    return Rotate("turn", rope.pairing).run(torch, {}, x, cos, sin).flatten().tolist()


def test_dims_beyond_the_rotary_ones_stay():
    x = torch.randn(1, 3, 1, R + 5)
    out = turned(Rope(), x, [5, 6, 7])
    assert torch.equal(out[..., R:], x[..., R:])
    assert not torch.allclose(out[..., :R], x[..., :R])


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ("none", [1.0, 10**-0.5, 0.1, 10**-1.5]),
        ("linear", [0.25, 0.25 * 10**-0.5, 0.025, 0.25 * 10**-1.5]),
        (
            "ntk",
            [(100 * 4 ** (8 / 6)) ** (-i / 4) for i in range(4)],
        ),  # the slowest is 4 times slower, the fastest the same
        ("longrope", [1.0, 10**-0.5 / 2, 0.1 / 4, 10**-1.5 / 8]),
    ],
)
def test_frequencies_of_a_scaling(scaling, expected):
    got = SCALINGS[scaling].frequencies(torch, 100.0, R, torch.arange(64)).tolist()
    assert got == pytest.approx(expected, rel=1e-5)


def test_scalings_that_depend_on_length_begin_beyond_the_original():
    plain = NoScaling().frequencies(torch, 100.0, R, torch.arange(16))
    dynamic = SCALINGS["dynamic_ntk"]
    assert torch.allclose(dynamic.frequencies(torch, 100.0, R, torch.arange(16)), plain)
    # at 64 = 4 L: s n / L - (s - 1) = 13
    longer = dynamic.frequencies(torch, 100.0, R, torch.arange(64))
    assert longer.tolist() == pytest.approx([(100 * 13 ** (8 / 6)) ** (-i / 4) for i in range(4)], rel=1e-5)
    short = SCALINGS["longrope"].frequencies(torch, 100.0, R, torch.arange(16))
    assert short.tolist() == pytest.approx([1.0, 10**-0.5 / 1.1, 0.1 / 1.2, 10**-1.5 / 1.3], rel=1e-5)


def test_the_sinusoid_of_the_paper():
    rows = Sinusoid("sinusoid", 4).run(torch, {}, torch.tensor([0, 1]))
    assert rows[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert rows[1].tolist() == pytest.approx([math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])
    halves = Sinusoid("sinusoid", 4, pairing="half").run(torch, {}, torch.tensor([1]))
    assert halves[0].tolist() == pytest.approx([math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)])
    turned = Sinusoid("sinusoid", 4, pairing="half", first="cosine").run(torch, {}, torch.tensor([1]))
    assert turned[0].tolist() == pytest.approx([math.cos(1), math.cos(0.01), math.sin(1), math.sin(0.01)])


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (8, [2.0**-i for i in range(1, 9)]),
        # Press et al. 2021: the slopes of 8 heads, then every other one of 16 heads
        (12, [2.0**-i for i in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]),
    ],
)
def test_alibi_slopes_of_the_paper(heads, slopes):
    # with q = 0 the scores are the bias alone, and a value that is one-hot in its key lets the probabilities
    # be read
    keys = 4
    q, k = torch.zeros(1, keys, heads, 1), torch.zeros(1, keys, heads, 1)
    v = torch.eye(keys)[None, :, None, :].expand(1, keys, heads, keys)
    probabilities = Attend("attend", Causal(), 1.0, alibi=8.0).run(torch, {}, q, k, v, torch.arange(keys))[
        0, -1
    ]
    steps = probabilities.log().diff(dim=-1)
    for head, slope in enumerate(slopes):
        assert steps[head].tolist() == pytest.approx([slope] * (keys - 1), abs=1e-6)
