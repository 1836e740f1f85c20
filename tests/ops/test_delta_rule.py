"""The gated delta rule beside transformers, over several chunks and onwards from a state."""

import pytest
import torch
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from archcli.ops import DeltaScan, L2Normalize

torch.set_num_threads(1)
TOKENS, HEADS, VALUE_HEADS, KEY, VALUE = 150, 2, 6, 8, 5
THEIRS = {
    "head": (qwen.torch_chunk_gated_delta_rule, VALUE_HEADS),
    "channel": (kimi.chunk_kimi_delta_attention, HEADS),
}


def drawn(kind, heads):
    """q, k, v, log decays and learning rates."""
    torch.manual_seed(1)
    q, k = torch.randn(2, 2, TOKENS, HEADS, KEY)
    gates = (2, TOKENS, heads) if kind == "head" else (2, TOKENS, heads, KEY)
    decay = -torch.nn.functional.softplus(torch.randn(gates))
    return q, k, torch.randn(2, TOKENS, heads, VALUE), decay, torch.rand(2, TOKENS, heads)


def ours(op, q, k, *rest):
    unit = L2Normalize("unit")
    return op.run(torch, {}, unit.run(torch, {}, q) * KEY**-0.5, unit.run(torch, {}, k), *rest)


@pytest.mark.parametrize("chunk", [16, 64])
@pytest.mark.parametrize("kind", THEIRS)
def test_scans_as_transformers_do(kind, chunk):
    theirs, heads = THEIRS[kind]
    inputs = drawn(kind, heads)
    options = {"output_final_state": True, "use_qk_l2norm_in_kernel": True}
    y, state = theirs(*inputs, initial_state=None, **options)
    later, last = theirs(*inputs, initial_state=state, **options)
    op = DeltaScan("y", chunk, "chunked", True)
    first, kept = ours(op, *inputs)
    second, end = ours(op, *inputs, kept)
    for one, other in ((first, y), (kept, state), (second, later), (end, last)):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_keys_that_repeat_are_solved_exactly():
    # equal keys without decay, learnt at the full rate: each token replaces the value of the one before
    torch.manual_seed(1)
    key = torch.nn.functional.normalize(torch.randn(1, 1, 1, KEY), dim=-1).expand(1, TOKENS, 1, KEY)
    values = torch.randn(1, TOKENS, 1, VALUE)
    zeros, ones = torch.zeros(1, TOKENS, 1), torch.ones(1, TOKENS, 1)
    (y,) = DeltaScan("y", 64, "chunked", False).run(torch, {}, key, key, values, zeros, ones)
    assert torch.allclose(y, values, atol=1e-5)
