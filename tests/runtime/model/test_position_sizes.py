"""Positions on random sizes, against their definitions written out.

Tables that are added, rotations, relative vectors, none at all.
"""

import cmath
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archcli.modules import (
    MLP,
    ALiBi,
    Decoder,
    Embedding,
    Encoder,
    Group,
    Learned,
    MultiHeadAttention,
    NoPosition,
    PreNorm,
    RelativeBuckets,
    RelativeKey,
    RMSNorm,
    Rope,
    Sinusoidal,
)
from archcli.ops import RelativeKeys, RotaryTable, Rotate
from zoo import built

torch.set_num_threads(1)
SIZES = st.integers(1, 9)
STARTS = st.integers(0, 300)
PAIRINGS = st.sampled_from(["half", "interleaved"])
V = 7


def model(attention=None, embedding=None, cls=Decoder, d_model=8, n_layers=1, **fields):
    layer = PreNorm(attention=attention or MultiHeadAttention(n_heads=1), ffn=MLP(d_ff=5), norm=RMSNorm())
    groups = (Group(n_layers=n_layers, layer=layer),)
    return cls(
        vocab_size=V,
        d_model=d_model,
        norm=RMSNorm(),
        embedding=embedding or Embedding(),
        groups=groups,
        **fields,
    )


def embedded(embedding, ids, start, d_model):
    """What a built model's embedding makes of ids [B, T] from that position on, and its weights."""
    made = built(model(embedding=embedding, d_model=d_model))
    positions = torch.arange(start, start + ids.shape[1])
    return made.embedding(ids, positions, V, d_model)[0].detach(), made.embedding


def sinusoid(position, width, base, pairing, first="sine"):
    """Vaswani et al. 2017, section 3.5.

    Dims 2i and 2i+1 are the sine and cosine of position / base^(2i/width), or the other way round.
    """
    angles = [position / base ** (2 * i / width) for i in range(width // 2)]
    turned = (math.sin, math.cos) if first == "sine" else (math.cos, math.sin)
    pairs = [tuple(f(angle) for f in turned) for angle in angles]
    return (
        [x for pair in pairs for x in pair]
        if pairing == "interleaved"
        else [pair[k] for k in (0, 1) for pair in pairs]
    )


@pytest.mark.long
@given(
    batch=st.integers(1, 3),
    new=SIZES,
    start=st.integers(0, 20),
    d=SIZES,
    offset=st.integers(0, 3),
    types=st.integers(0, 3),
)
def test_learned_rows_and_the_first_token_type_are_added(batch, new, start, d, offset, types):
    ids = torch.randint(V, (batch, new))
    embedding = Embedding(position=Learned(max_seq_len=start + new, offset=offset), token_types=types)
    x, weights = embedded(embedding, ids, start, d)
    assert weights.positions.weight.shape == (start + new + offset, d)
    for b in range(batch):
        for t in range(new):
            expected = weights.tokens.weight[ids[b, t]] + weights.positions.weight[start + t + offset]
            expected = expected + weights.token_types.weight[0] if types else expected
            assert torch.allclose(x[b, t], expected, atol=1e-6)


@pytest.mark.long
@given(
    new=SIZES, start=STARTS, half=SIZES, base=st.floats(10.0, 1e6), pairing=PAIRINGS,
    first=st.sampled_from(["sine", "cosine"]), offset=st.integers(0, 3),
)  # fmt: skip
def test_the_sinusoid_is_added(new, start, half, base, pairing, first, offset):
    ids = torch.randint(V, (2, new))
    position = Sinusoidal(base=base, pairing=pairing, first=first, offset=offset)
    x, weights = embedded(Embedding(position=position), ids, start, 2 * half)
    places = range(start + offset, start + offset + new)
    table = torch.tensor([sinusoid(place, 2 * half, base, pairing, first) for place in places])
    assert torch.allclose(x, (weights.tokens.weight[ids] + table).detach(), atol=2e-4)


@given(
    width=SIZES.map(lambda half: 2 * half), rest=st.integers(0, 5),
    theta=st.floats(10.0, 1e6), pairing=PAIRINGS,
    places=st.lists(st.integers(0, 200), min_size=2, max_size=2), shift=STARTS,
)  # fmt: skip
def test_rope_turns_pairs_like_complex_numbers_and_scores_know_distance_alone(
    width, rest, theta, pairing, places, shift
):
    """Score of query m and key n.

    The real part of sum q conj(k) e^(i (m - n) f), f = theta^(-2i/r), and what is not turned as it is.
    """
    rope, (q, k) = Rope(theta=theta, rotary_dim=width, pairing=pairing), torch.randn(2, 1, 1, 1, width + rest)

    def score(m, n):
        return float((turned(rope, width, q, m) * turned(rope, width, k, n)).sum())

    m, n = places
    pairs = [
        (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + width // 2) for i in range(width // 2)
    ]
    heads = [[complex(float(x[..., a]), float(x[..., b])) for a, b in pairs] for x in (q, k)]
    turns = [cmath.exp(1j * (m - n) * theta ** (-2 * i / width)) for i in range(len(pairs))]
    expected = sum((a * b.conjugate() * turn).real for a, b, turn in zip(*heads, turns, strict=True))
    expected += float((q[..., width:] * k[..., width:]).sum())
    assert score(m, n) == pytest.approx(expected, abs=2e-3)
    assert score(m + shift, n + shift) == pytest.approx(score(m, n), abs=2e-3)


def turned(rope, width, x, position):
    table = RotaryTable("table", width, rope).run(torch, {}, torch.tensor([position]))
    return Rotate("turn", rope.pairing).run(torch, {}, x, *table)


@given(
    batch=st.integers(1, 3),
    new=SIZES,
    past=SIZES,
    heads=st.integers(1, 3),
    d=SIZES,
    reach=st.integers(1, 6),
    scale=st.floats(0.1, 2.0),
)
def test_shaw_adds_a_vector_per_clipped_distance_to_the_key(batch, new, past, heads, d, reach, scale):
    """arXiv:1803.02155 equations 4 and 5.

    Scale q . (k + a), a of clip(j - i, -k, k); the part that is not q . k.
    """
    op, q, vectors = (
        RelativeKeys("keys", reach, past + new, scale),
        torch.randn(batch, new, heads, d),
        torch.randn(2 * reach + 1, d),
    )
    bias = op.run(torch, {"weight": vectors}, q, torch.arange(past, past + new))
    assert bias.shape == (batch, heads, new, past + new)
    for i in range(new):
        for j in range(past + new):
            vector = vectors[max(-reach, min(reach, j - (past + i))) + reach]
            assert torch.allclose(bias[:, :, i, j], scale * (q[:, i] @ vector), atol=1e-4)


POSITIONS = {
    "rope": {"attention": Rope(theta=100.0)},
    "alibi": {"attention": ALiBi()},
    "shaw": {"attention": RelativeKey(max_distance=3)},
    "buckets": {"score_bias": RelativeBuckets(n_buckets=6, max_distance=9)},
    "learned": {"embedding": Learned(max_seq_len=9)},
    "sinusoidal": {"embedding": Sinusoidal()},
}


def shuffled(cls, causal, attention=None, embedding=None, **fields):
    """Outputs of a one-layer model for ids, and for the same ids with the first seven in another order."""
    heads = MultiHeadAttention(n_heads=2, causal=causal, position=attention or NoPosition())
    made = built(model(heads, Embedding(position=embedding or NoPosition()), cls, **fields))
    order, ids = (
        torch.tensor([4, 2, 6, 0, 5, 1, 3, 7]),
        torch.randint(V, (2, 8), generator=torch.Generator().manual_seed(3)),
    )
    with torch.no_grad():
        return made(ids), made(ids[:, order]), order


def test_without_positions_an_encoder_permutes_with_its_tokens():
    plain, other, order = shuffled(Encoder, causal=False)
    assert torch.allclose(plain[:, order], other, atol=1e-5)


def test_without_positions_the_last_of_a_causal_layer_does_not_know_the_order():
    plain, other, order = shuffled(Decoder, causal=True)
    assert torch.allclose(plain[:, -1], other[:, -1], atol=1e-5)
    assert not torch.allclose(plain[:, order], other, atol=1e-2)  # but the mask tells those before


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("kind", POSITIONS)
def test_with_positions_the_order_counts(kind):
    for cls, causal in ((Encoder, False), (Decoder, True)):
        plain, other, _ = shuffled(cls, causal, **POSITIONS[kind])
        assert not torch.allclose(plain[:, -1], other[:, -1], atol=1e-3)
