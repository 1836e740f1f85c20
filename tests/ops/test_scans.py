"""Scans in their two forms: equal values and gradients in float64, whole and in pieces, at random sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archcli.ops import DeltaScan, LinearAttend, MLSTMScan, StateScan

torch.set_num_threads(1)


def drawn(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def state_scan(generator, batch, tokens, groups, per_group, width):
    """q, k, v, log decays and a state of StateScan."""
    heads = groups * per_group
    keys = [drawn(generator, batch, tokens, groups, width) for _ in range(2)]
    decay = -drawn(generator, batch, tokens, heads).abs()
    state = drawn(generator, batch, heads, width, 3)
    return [*keys, drawn(generator, batch, tokens, heads, 3), decay], [state]


def linear_attend(generator, batch, tokens, groups, per_group, width):
    """Positive q and k, v, and the sums of LinearAttend."""
    keys = [drawn(generator, batch, tokens, groups, width).abs() for _ in range(2)]
    sums = [drawn(generator, batch, groups, width, per_group), drawn(generator, batch, groups, width).abs()]
    return [*keys, drawn(generator, batch, tokens, groups, per_group)], sums


def mlstm_scan(generator, batch, tokens, groups, per_group, width):
    """q, k, v, the gates and the states of MLSTMScan, whose gates grow far beyond 1."""
    keys = [drawn(generator, batch, tokens, groups, width) for _ in range(2)]
    gates = [4 * drawn(generator, batch, tokens, groups) for _ in range(2)]
    sizes = (groups, width, per_group), (groups, width), (groups,)
    states = [drawn(generator, batch, *size) for size in sizes]
    return [*keys, drawn(generator, batch, tokens, groups, per_group), *gates], states


def delta_scan(generator, batch, tokens, groups, per_group, width):
    """Unit q and k, v, log decays by head, learning rates up to 2 and a state of DeltaScan."""
    heads = groups * per_group
    keys = [drawn(generator, batch, tokens, groups, width) for _ in range(2)]
    unit = [key / key.norm(dim=-1, keepdim=True) for key in keys]
    decay = -3 * drawn(generator, batch, tokens, heads).abs()
    rates = 2 * drawn(generator, batch, tokens, heads).sigmoid()
    state = drawn(generator, batch, heads, width, 3)
    return [*unit, drawn(generator, batch, tokens, heads, 3), decay, rates], [state]


def delta_scan_by_channel(generator, batch, tokens, groups, per_group, width):
    """The same with a log decay for each channel of a key, by which exp(-sum) of a chunk would overflow."""
    inputs, states = delta_scan(generator, batch, tokens, groups, per_group, width)
    decay = -80 * drawn(generator, batch, tokens, groups * per_group, width).abs()
    return [*inputs[:3], decay, inputs[4]], states


SCANS = {
    "delta": (DeltaScan, delta_scan),
    "delta-channels": (DeltaScan, delta_scan_by_channel),
    "state": (StateScan, state_scan),
    "linear": (lambda name, chunk, form, keep: LinearAttend(name, True, keep, chunk, form), linear_attend),
    "mlstm": (MLSTMScan, mlstm_scan),
}
"""By name the operation, and a function that draws its inputs (tokens on axis 1) and its states."""

sizes = st.tuples(*(st.integers(1, most) for most in (2, 23, 2, 3, 4)))


def run(op, inputs, states, given=None):
    """Outputs and the gradients of all inputs, zero where nothing depends on one (m of an mLSTM)."""
    leaves = [x.clone().requires_grad_() for x in (*inputs, *states)]
    out = op.run(torch, {}, *leaves)
    weights = given or [torch.randn_like(x) for x in out]
    total = sum((x * weight).sum() for x, weight in zip(out, weights, strict=True))
    grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return out, grads, weights


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", SCANS)
@given(size=sizes, chunk=st.integers(1, 9), started=st.booleans())
def test_chunks_and_steps_are_equal(name, size, chunk, started):
    make, inputs_of = SCANS[name]
    inputs, states = inputs_of(torch.Generator().manual_seed(sum(size)), *size)
    states = states if started else []
    one, of_one, weights = run(make("scan", chunk, "chunked", True), inputs, states)
    other, of_other, _ = run(make("scan", chunk, "recurrent", True), inputs, states, weights)
    for ours, theirs in zip((*one, *of_one), (*other, *of_other), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", SCANS)
@given(size=sizes, chunk=st.integers(1, 9), cut=st.integers(1, 22), form=st.sampled_from(["chunked", "auto"]))
def test_a_pass_in_pieces_is_the_whole_pass(name, size, chunk, cut, form):
    make, inputs_of = SCANS[name]
    inputs, _ = inputs_of(torch.Generator().manual_seed(sum(size)), *size)
    op, states = make("scan", chunk, form, True), []
    whole, *_ = op.run(torch, {}, *inputs)
    pieces = []
    for piece in zip(*(x.split(cut, dim=1) for x in inputs), strict=True):
        y, *states = op.run(torch, {}, *piece, *states)
        pieces.append(y)
    assert torch.allclose(torch.cat(pieces, 1), whole, rtol=1e-10, atol=1e-10)
