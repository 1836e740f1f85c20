"""What `kvcache` says is served is what `memory --phase serve` finds to fit."""

import pytest

import archcli
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.memory.answers.served import most_beside
from table import every_row

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
    engine = engine_of("vllm").without_padding()
    fits = count_kv_cache(archcli.load("gpt2"), 1024, memory_bytes=8 * GB, engine=engine).totals["fits"]
    report = archcli.count_memory("gpt2", "serve", seq_len=1024).totals
    assert fits["served"]["temporaries_bytes"] == report["parts"]["temporaries"]
    assert fits["served"]["beyond_bytes"] == report["beyond_bytes"]
    beside = 8 * GB - fits["weights_bytes"] - report["parts"]["temporaries"] - report["beyond_bytes"]
    assert fits["served"]["sequences"] == beside // (2 * 12 * 768 * 1024 * 2)


GROWING = {
    "flat": (lambda n: 16 * -(-n // 16), lambda n: 50),
    "slower than the cache": (lambda n: 16 * -(-n // 16), lambda n: 50 + n // 20),
    "faster than the cache": (lambda n: n, lambda n: 3 * n),
    "with the square": (lambda n: n, lambda n: n * n // 40),
    "in a step": (lambda n: n, lambda n: 30 if n < 100 else 300),
    "of a state alone": (lambda n: 80, lambda n: n // 3),
}
"""A cache and what lies beside it, by the number of tokens."""


@every_row(("cached", "beside"), GROWING.values(), ids=GROWING)
def test_the_most_that_fits_is_that_of_all(cached, beside):
    for budget in range(0, 1300, 7):
        within = [n for n in range(1, 1001) if cached(n) + beside(n) <= budget]
        assert most_beside(cached, beside, budget, 1000) == max(within, default=0)


def test_a_prefill_is_traced_seldom():
    """Nearly as much lies beside few tokens as beside many: five prefills, where halving takes 24."""
    traced = set()
    most_beside(lambda n: 131072 * n, lambda n: traced.add(n) or 10**9 + 4096 * n, 24 * 10**9, 2**24)
    assert len(traced) <= 5


def test_an_encoder_serves_nothing():
    assert "served" not in count_kv_cache(archcli.load("bert-base-uncased"), memory_bytes=GB).totals["fits"]
