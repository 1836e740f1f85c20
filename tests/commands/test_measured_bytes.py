"""--measured-bytes: what would explain the gap between a count and what an engine logged."""

import pytest

import archcli
from archcli.errors import ArchError
from table import every_row

GIB = 2**30


def measured(model, text, **options):
    return archcli.count_memory(model, "serve", measured_bytes=text, **options)


def test_a_draft_is_one_more_layer_of_attention():
    """8,192 tokens of Llama 3.1 8B: 32 layers of keys and values of 8 heads of 128, and one more."""
    layer = 8192 * 2 * 8 * 128 * 2
    report = measured("llama-3.1-8b", f"cache:{33 * layer}B", engine="vllm", seq_len=8192)
    found = report.totals["measured"]
    assert (found["counted_bytes"], found["gap_bytes"]) == (32 * layer, layer)
    [first, *_] = found["explained"]
    assert first["what"] == "one more layer of attention, as of a draft (MTP)"
    assert first["bytes"] == pytest.approx(layer, rel=0.01)
    assert abs(found["rest_bytes"]) < 0.01 * layer


def test_twice_the_bytes_are_a_cache_in_sixteen_bits():
    report = measured("llama-3.1-8b", "cache:1GiB", engine="vllm", kv_dtype="fp8", seq_len=8192)
    assert report.totals["measured"]["explained"] == [{"what": "a cache in bf16", "bytes": GIB // 2}]
    assert report.totals["measured"]["rest_bytes"] == 0


def test_a_card_that_is_full_is_the_pool():
    """vLLM took 15,982 MiB of a 3B model in 4 bits on a RTX 3090 (vllm-project/vllm#15204)."""
    report = measured("qwen2.5-3b", "15982MiB", device="rtx-3090", dtype="awq-int4")
    found = report.totals["measured"]
    assert found["part"] == "all"
    assert found["explained"][0]["what"].startswith("the pool of the cache")
    assert found["rest_bytes"] == 0


def test_what_is_not_explained_is_said():
    report = measured("qwen3.5-27b", "weights:14.28GiB", device="2xrtx-5090", dtype="fp8-block", tp=2)
    found = report.totals["measured"]
    assert found["rest_bytes"] == found["gap_bytes"] - found["explained"][0]["bytes"] > 0
    assert "towers that the description leaves out" in report.headline


def test_less_than_the_count_has_no_explanation():
    found = measured("gpt2", "weights:100MiB").totals["measured"]
    assert (found["explained"], found["gap_bytes"] < 0) == ([], True)


@every_row(("text", "told"), [("pool:5GiB", "pool is no part"), ("12", "12 has no unit")], ids=str)
def test_what_is_no_size_is_a_line(text, told):
    with pytest.raises(ArchError, match=told):
        measured("gpt2", text)
