"""Positions of random settings against Hugging Face's.

T5's buckets, ALiBi's slopes, stretched RoPE frequencies.
"""

from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from archcli.modules import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NTKScaling,
    Rope,
    YarnScaling,
)
from archcli.ops import Attend, Causal, RelativeBias
from table import sampled_rows

torch.set_num_threads(1)
FACTORS = st.floats(1.0, 40.0)
LENGTHS = st.integers(1, 5000)
CONTEXTS = st.sampled_from([16, 64, 100, 2048, 4096])
ROTARY = {"half": st.integers(2, 64), "theta": st.floats(100.0, 1e6), "length": LENGTHS}


@given(
    buckets=st.integers(1, 40),
    both=st.booleans(),
    more=st.integers(1, 200),
    new=st.integers(1, 40),
    past=st.integers(0, 300),
)
def test_buckets_are_those_of_t5(buckets, both, more, new, past):
    near = buckets // (4 if both else 2)
    assume(near)
    distance = torch.arange(past + new)[None, :] - torch.arange(past, past + new)[:, None]
    theirs = T5Attention._relative_position_bucket(distance, both, buckets, near + more)
    op, table = (
        RelativeBias("bias", buckets, 1, past + new, near + more, both),
        torch.arange(buckets)[:, None],
    )
    assert torch.equal(op.run(torch, {"weight": table}, torch.arange(past, past + new))[0, 0], theirs)


def slopes(heads, exponent, past=0):
    """The bias alone, read off the probabilities of attention over values that are one-hot in their key."""
    keys = 3
    q, k = torch.zeros(1, 1, heads, 1), torch.zeros(1, keys, heads, 1)
    v = torch.eye(keys)[None, :, None, :].expand(1, keys, heads, keys)
    op = Attend("attend", Causal(), 1.0, past=past + keys - 1, alibi=exponent)
    return op.run(torch, {}, q, k, v, torch.tensor([past + keys - 1]))[0, 0].log().diff(dim=-1)


@sampled_rows("heads", range(1, 70), 4)
def test_slopes_are_those_of_bloom_and_mpt(heads):
    bloom = build_alibi_tensor(torch.ones(1, 3), heads, torch.float32).view(heads, 3).diff(dim=-1)
    torch.testing.assert_close(slopes(heads, 8.0, past=heads), bloom, rtol=0, atol=1e-6)
    for exponent in (4, 8, 11):
        mpt = build_mpt_alibi_tensor(heads, 3, exponent).view(heads, 3).diff(dim=-1)
        torch.testing.assert_close(slopes(heads, float(exponent)), mpt, rtol=0, atol=1e-6)


def same(scaling, kind, parameters, context, half, theta, length):
    given_too = {"rope_theta": theta, "rope_type": kind, **parameters}
    config = LlamaConfig(head_dim=2 * half, max_position_embeddings=context, rope_parameters=given_too)
    expected, amplitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    ours = Rope(theta=theta, scaling=scaling).frequencies(torch, 2 * half, torch.arange(length))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=0)
    assert scaling.amplitude == pytest.approx(amplitude)


@given(factor=FACTORS, **ROTARY)
def test_linear(factor, half, theta, length):
    same(LinearScaling(factor=factor), "linear", {"factor": factor}, 2048, half, theta, length)


@given(factor=FACTORS, context=CONTEXTS, **ROTARY)
def test_dynamic_ntk(factor, context, half, theta, length):
    scaling = DynamicNTKScaling(factor=factor, original_max_seq_len=context)
    same(scaling, "dynamic", {"factor": factor}, context, half, theta, length)


@given(factor=FACTORS, **ROTARY)
def test_ntk(factor, half, theta, length):
    """arXiv:2309.00071 equation 7.

    The base times s^(r/(r-2)), so that the slowest pair turns s times slower.
    """
    ours = (
        Rope(theta=theta, scaling=NTKScaling(factor=factor))
        .frequencies(torch, 2 * half, torch.arange(length))
        .tolist()
    )
    assert ours[0] == 1.0
    assert ours[-1] == pytest.approx(theta ** (-(2 * half - 2) / (2 * half)) / factor, rel=1e-5)
    ratios = [slow / fast for fast, slow in pairwise(ours)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-4)


@given(factor=FACTORS, context=CONTEXTS, low=st.floats(0.5, 4.0), band=st.floats(0.1, 8.0), **ROTARY)
def test_llama3(factor, context, low, band, half, theta, length):
    sizes = {"factor": factor, "low_freq_factor": low, "high_freq_factor": low + band}
    theirs = {**sizes, "original_max_position_embeddings": context}
    same(
        Llama3Scaling(original_max_seq_len=context, **sizes),
        "llama3",
        theirs,
        8 * context,
        half,
        theta,
        length,
    )


YARN = st.fixed_dictionaries(
    {
        "factor": FACTORS,
        "beta_slow": st.floats(0.5, 4.0),
        "beta_fast": st.floats(4.5, 40.0),
        "truncate": st.booleans(),
    },
    optional={"attention_factor": st.floats(0.5, 2.0)},
)
MSCALES = st.just({}) | st.fixed_dictionaries(
    {"mscale": st.floats(0.5, 2.0), "mscale_all_dim": st.floats(0.5, 2.0)}
)


@given(own=YARN, mscales=MSCALES, context=CONTEXTS, **ROTARY)
def test_yarn(own, mscales, context, half, theta, length):
    theirs = {**own, **mscales, "original_max_position_embeddings": context}
    same(
        YarnScaling(original_max_seq_len=context, **own, **mscales),
        "yarn",
        theirs,
        int(context * own["factor"]),
        half,
        theta,
        length,
    )


LONGROPE = st.fixed_dictionaries(
    {"factor": st.floats(1.5, 40.0)}, optional={"attention_factor": st.floats(0.5, 2.0)}
)


@given(
    own=LONGROPE,
    context=CONTEXTS,
    beyond=st.integers(-2, 2) | LENGTHS,
    seed=st.integers(0, 99),
    half=ROTARY["half"],
)
def test_longrope(own, context, beyond, seed, half):
    short, long = (torch.rand(2, half, generator=torch.Generator().manual_seed(seed)) * 10 + 1).tolist()
    scaling = LongRopeScaling(
        original_max_seq_len=context, short_factor=tuple(short), long_factor=tuple(long), **own
    )
    theirs = {**own, "short_factor": short, "long_factor": long, "original_max_position_embeddings": context}
    same(scaling, "longrope", theirs, context, half, 1e4, context + beyond)
