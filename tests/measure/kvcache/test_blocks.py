"""The cache of keys of blocks, worked out by hand, and as others print it of DeepSeek-V4."""

import pytest

from archcli.load.source import load
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Request
from table import every_row

WINDOW, D, INDEX = 128, 512, 128


def cached(tokens, sliding, sparse, heavy):
    """(elements that grow, elements of open blocks) of so many layers of each kind."""
    near = (sliding + sparse + heavy) * min(tokens, WINDOW) * D
    blocks = sparse * (tokens // 4) * (D + INDEX) + heavy * (tokens // 128) * D
    # of an open block keys and gates, in a sparse layer two halves; of its last block the first halves
    left = sparse * 2 * (tokens % 4) * 2 * (D + INDEX) + heavy * 2 * (tokens % 128) * D
    return near + blocks, left + sparse * 2 * 4 * (D + INDEX)


@pytest.mark.long
@every_row("tokens", [1, 3, 4, 127, 128, 131, 1000, 8192])
@every_row(("name", "layers"), [("deepseek-v4-flash", (2, 21, 20)), ("deepseek-v4-pro", (0, 30, 31))])
def test_a_window_blocks_and_what_is_open(name, layers, tokens):
    totals = count_kv_cache(load(name).model, tokens).totals
    assert (totals["kv_elements"], totals["state_elements"]) == cached(tokens, *layers)
    sliding, sparse, heavy = layers
    of_token = (sliding + sparse + heavy) * D + sparse * (D + INDEX) // 4 + heavy * D // 128
    assert totals["elements_per_token"] == of_token


def test_a_million_tokens_take_what_vllm_says():
    # vLLM's post on DeepSeek-V4, April 2026: 9.62 GiB a sequence of 1M tokens in bf16, 8.7 times as little
    # as 61 layers of DeepSeek-V3.2
    pro, before = (
        count_kv_cache(load(name).model, 1 << 20).totals["bytes"] / 2**30
        for name in ("deepseek-v4-pro", "deepseek-v3.2")
    )
    assert round(pro, 2) == 9.62
    assert round(before / pro, 1) == 8.7


@pytest.mark.parametrize("past", [0, 130, 5000])
def test_of_blocks_attention_counts_those_that_are_closed_and_chosen(past):
    decoded = count_pass(load("deepseek-v4-flash").model, Request("decode", 1, 1, past))
    flops = sum(
        row.times * part.flops
        for row in decoded.rows
        for part in row.parts
        if row.path.endswith(".attend") and part.name in {"scores", "mix"}
    )
    n = past + 1
    keys = 43 * min(n, WINDOW) + 21 * min(n // 4, 512) + 20 * (n // 128)
    assert flops == 2 * 2 * 64 * D * keys
