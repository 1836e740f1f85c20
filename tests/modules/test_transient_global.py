"""Transient global attention: parameters and FLOPs worked out, and refusals of what does not go with it."""

import pytest

import archcli
from archcli.errors import ArchError

BUCKETS = {"kind": "token_and_block_buckets", "n_buckets": 32, "bidirectional": True, "block": 4}


def encoder(score_bias=BUCKETS, **attention):
    mixer = {"kind": "transient_global", "n_heads": 2, "block": 4, "causal": False, **attention}
    layer = {"kind": "pre_norm", "attention": mixer}
    return {
        "kind": "encoder",
        "vocab_size": 50,
        "d_model": 16,
        "norm": "rmsnorm",
        "groups": [{"n_layers": 2, "layer": layer}],
        "score_bias": score_bias,
    }


def test_parameters_are_those_of_attention_a_norm_of_sums_and_two_tables():
    layer = 4 * 16 * 16 + 16 + 16  # projections; the norms of the layer and of the sums
    tables = 2 * 32 * 2  # 32 buckets of 2 heads, for tokens and for blocks
    assert archcli.count_params(encoder()).totals["params"] == 50 * 16 + 2 * layer + tables + 16


def test_flops_have_keys_and_values_of_whole_blocks():
    # 10 tokens are 2 blocks, of 4 and of 6
    projected = 2 * 16 * 16 * (4 * 10 + 2 * 2)
    scored = 2 * 2 * 16 * 10 * (10 + 2)  # scores and mix, over all heads
    assert archcli.count_flops(encoder(), seq_len=10).totals["matmul_flops"] == 2 * (projected + scored)


def test_near_tokens_alone_are_seen_beside_the_sums():
    near = {"kind": "longformer", "window": 2}  # one token to either side
    pairs = 3 * 10 - 2 + 10 * 2
    projected = 2 * 16 * 16 * (4 * 10 + 2 * 2)
    counted = archcli.count_flops(encoder(sparsity=near), seq_len=10)
    assert counted.totals["matmul_flops"] == 2 * (projected + 2 * 2 * 16 * pairs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"causal": True}, "sums of blocks hold later tokens"),
        ({"block": 5}, "differ in the keys that sum blocks"),
        ({"score_bias": "buckets"}, "differ in the keys that sum blocks"),
        ({"bias": True}, "bias is not defined"),
        ({"position": "rope"}, "position is not defined"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_go_with_it_is_refused(given, message):
    with pytest.raises(ArchError, match=message):
        archcli.count_params(encoder(**given))
