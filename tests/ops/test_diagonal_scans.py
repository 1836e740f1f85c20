"""Scans without heads in their two forms: equal values and gradients in float64, whole and in pieces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archcli.ops import WKV, DiagonalScan, SelectiveScan

torch.set_num_threads(1)


def drawn(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def selective(generator, batch, tokens, width, state):
    """Weights, inputs and states of SelectiveScan."""
    channels = [drawn(generator, batch, tokens, width) for _ in range(2)]
    shared = [drawn(generator, batch, tokens, state) for _ in range(2)]
    weights = {"A_log": drawn(generator, width, state), "D": drawn(generator, width)}
    return weights, [*channels, *shared], [drawn(generator, batch, width, state)]


def headed(generator, batch, tokens, width, state):
    """The same with 3 heads."""
    channels = [drawn(generator, batch, tokens, 3, width) for _ in range(2)]
    shared = [drawn(generator, batch, tokens, 3, state) for _ in range(2)]
    weights = {"A_log": drawn(generator, 3, width, state), "D": drawn(generator, 3, width)}
    return weights, [*channels, *shared], [drawn(generator, batch, 3, width, state)]


def diagonal(generator, batch, tokens, width, state):
    """Inputs and states of DiagonalScan, with decays on both sides of 1."""
    return {}, [drawn(generator, batch, tokens, width) for _ in range(2)], [drawn(generator, batch, width)]


def wkv(generator, batch, tokens, width, state):
    """Weights, inputs and states of WKV, with exponents that would overflow by themselves."""
    weights = {name: 2 * drawn(generator, width) for name in ("decay", "first")}
    key, value = 300 * drawn(generator, batch, tokens, width), drawn(generator, batch, tokens, width)
    sums = [drawn(generator, batch, width), drawn(generator, batch, width).exp()]
    return weights, [key, value], [*sums, 300 * drawn(generator, batch, width)]


SCANS = {
    "selective": (SelectiveScan, selective),
    "headed": (SelectiveScan, headed),
    "diagonal": (DiagonalScan, diagonal),
    "wkv": (WKV, wkv),
}
"""By name the operation, and a function that draws its weights, inputs and states."""

sizes = st.tuples(*(st.integers(1, most) for most in (2, 150, 4, 3)))
every_scan = pytest.mark.parametrize("name", SCANS)


def run(op, weights, inputs, states, given=None):
    """Outputs, the gradients of all weights and inputs, and what they are of; a maximum gives none."""
    leaves = [x.clone().requires_grad_() for x in (*weights.values(), *inputs)]
    named = dict(zip(weights, leaves, strict=False))
    out = op.run(torch, named, *leaves[len(weights) :], *states)
    given = given or [torch.randn_like(x) for x in out]
    assert [x.requires_grad for x in out] == [True] * len(out[:3]) + [False] * len(out[3:])
    gradients = torch.autograd.grad(out[:3], leaves, given[:3], allow_unused=True)
    return out, gradients, given


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@every_scan
@given(size=sizes, started=st.booleans())
def test_chunks_and_steps_are_equal(name, size, started):
    make, draw = SCANS[name]
    weights, inputs, states = draw(torch.Generator().manual_seed(sum(size)), *size)
    states = states if started else []
    one, of_one, given = run(make("scan", "chunked", True), weights, inputs, states)
    other, of_other, _ = run(make("scan", "recurrent", True), weights, inputs, states, given)
    for ours, theirs in zip((*one, *of_one), (*other, *of_other), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.sample(2, whole=True)
@every_scan
@given(size=sizes, cut=st.integers(1, 149), form=st.sampled_from(["chunked", "auto"]))
def test_a_pass_in_pieces_is_the_whole_pass(name, size, cut, form):
    make, draw = SCANS[name]
    weights, inputs, _ = draw(torch.Generator().manual_seed(sum(size)), *size)
    op, states = make("scan", form, True), []
    whole, *_ = op.run(torch, weights, *inputs)
    pieces = []
    for piece in zip(*(x.split(cut, dim=1) for x in inputs), strict=True):
        y, *states = op.run(torch, weights, *piece, *states)
        pieces.append(y)
    assert torch.allclose(torch.cat(pieces, 1), whole, rtol=1e-10, atol=1e-10)
