"""What `kvcache` says is served is what `memory --phase serve` finds to fit."""

import pytest

import archcli
from archcli.measure.kvcache.kvcache import count_kv_cache

GB = 10**9
CASES = {
    "llama-3.1-8b": (80 * GB, 8192, 1),
    "gemma-2-2b": (24 * GB, 4096, 1),  # windows
    "deepseek-v3": (80 * GB, 4096, 8),  # does not fit on eight
    "qwen3-8b": (40 * GB, 2048, 4),
    "t5-base": (8 * GB, 512, 1),
}


def fitted(name, what, memory, tp, **sizes):
    return archcli.count_memory(name, "serve", memory=memory, plan={"tp": tp}, fit=what, **sizes).totals[
        "fit"
    ]["value"]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CASES)
def test_tokens_and_sequences_are_those_of_memory(name):
    memory, context, tp = CASES[name]
    fits = archcli.count_kv_cache(name, context, 3, memory=memory, tp=tp).totals["fits"]
    assert (fits["served"]["tokens"] or None) == fitted(name, "context", memory, tp, batch_size=3)
    assert (fits["served"]["sequences"] or None) == fitted(name, "batch", memory, tp, seq_len=context)
    assert fits["served"]["tokens"] <= fits["beside_weights"]["tokens"]


def test_what_is_served_is_weights_cache_prefill_and_what_is_beyond():
    fits = count_kv_cache(archcli.load("gpt2"), 1024, memory_bytes=8 * GB).totals["fits"]
    report = archcli.count_memory("gpt2", "serve", seq_len=1024).totals
    assert fits["served"]["temporaries_bytes"] == report["parts"]["temporaries"]
    assert fits["served"]["beyond_bytes"] == report["beyond_bytes"]
    beside = 8 * GB - fits["weights_bytes"] - report["parts"]["temporaries"] - report["beyond_bytes"]
    assert fits["served"]["sequences"] == beside // (2 * 12 * 768 * 1024 * 2)


def test_an_encoder_serves_nothing():
    assert "served" not in count_kv_cache(archcli.load("bert-base-uncased"), memory_bytes=GB).totals["fits"]
