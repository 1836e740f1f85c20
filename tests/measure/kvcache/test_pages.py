"""Pools whose layers share pages of one size, held to the logs of vLLM."""

import pytest

import archcli
from table import every_row

GIB, MIB = 2**30, 2**20

PRINTED = [
    # noonghunna/club-3090#612, vLLM 0.24: Qwen3.6-35B-A3B has the shape of Qwen3.5's
    ("qwen3.5-35b-a3b", {}, "fp8", 5.98, 131072, 2096, 4.33),
    # a log of 2026-05-01: the same model in NVFP4
    ("qwen3.5-35b-a3b", {}, "fp8", 2.95, 65536, 2096, 3.87),
    # mitchross/talos-argocd-proxmox#1995: Qwen3.8-27B in FP8 on two RTX 3090, 4.99 GiB each
    ("qwen3.5-27b", {"tp": 2}, "fp8", 4.99, 131072, 1568, 2.31),
]
"""Model, plan, type of the cache, GiB; context, tokens of a block, and sequences as printed."""


@every_row(("name", "plan", "dtype", "size", "context", "block", "printed"), PRINTED)
def test_a_pool_of_a_hybrid_is_that_of_the_log(name, plan, dtype, size, context, block, printed):
    options = {"engine": "vllm", "dtype": dtype, "memory": int(size * GIB), **plan}
    pool = archcli.count_kv_cache(name, context, **options).totals["fits"]["pool"]
    assert {*pool["block_tokens"]} == {block, None}
    assert round(pool["concurrency"], 2) == printed


def test_the_tokens_that_a_log_prints_are_sequences_by_their_length():
    options = {"engine": "vllm", "dtype": "fp8", "memory": int(5.98 * GIB)}
    report = archcli.count_kv_cache("qwen3.5-35b-a3b", 131072, **options)
    assert report.totals["fits"]["pool"]["printed_tokens"] == 567_978
    assert any("567,978 tokens, 4.33 sequences of 131,072" in note for note in report.notes)


# vllm-project/vllm (0.19.1, 0.30): `Setting attention block size to … tokens`
BLOCKS = [
    ("qwen3.5-27b", 1, "bf16", 784),
    ("qwen3.5-35b-a3b", 1, "bf16", 1056),
    ("qwen3.5-35b-a3b", 1, "fp8", 2096),
    ("qwen3.5-9b", 1, "bf16", 528),
    ("qwen3.5-9b", 1, "fp8", 1056),
]


@pytest.mark.long
@every_row(("name", "tp", "dtype", "block"), BLOCKS)
def test_a_block_of_attention_has_the_tokens_of_the_log(name, tp, dtype, block):
    report = archcli.count_kv_cache(name, 4096, dtype=dtype, tp=tp, engine="vllm", memory=GIB)
    assert report.totals["fits"]["pool"]["block_tokens"][0] == block


def test_blocks_of_a_hybrid_by_hand():
    """30 layers have states, 10 attention: 3 groups and 1, and each block has 10 pages."""
    conv, state = 3 * (16 * 128 * 2 + 32 * 128) * 2, 32 * 128 * 128 * 4
    token = 2 * 2 * 256
    assert (conv + state) % (16 * token) == 0
    block = (conv + state) // token
    whole = -(-131072 // block) + 3 * 2
    held = archcli.count_kv_cache("qwen3.5-35b-a3b", 131072, dtype="fp8", engine="vllm").totals["held"]
    assert held["bytes"] == whole * 10 * (conv + state)
    memory = archcli.count_memory(
        "qwen3.5-35b-a3b", "serve", seq_len=131072, kv_dtype="fp8", engine="vllm"
    ).totals
    assert memory["parts"]["cache"] == held["bytes"]


# vllm-project/vllm#44376 (0.22): 6.66 GiB needed for 30,000 tokens, 5.44 GiB hold 13,528; SemiAnalysisAI/
# InferenceX#2540: 14.88 GiB; passes of 16,384 tokens in flight
NEEDED = [
    ("deepseek-v4-flash", 30_000, 6.66),
    ("deepseek-v4-flash", 13_528, 5.44),
    ("deepseek-v4-pro", 1_048_576, 14.88),
]


@every_row(("name", "tokens", "needed"), NEEDED)
def test_what_compressed_attention_needs_is_that_of_the_log(name, tokens, needed):
    held = archcli.count_kv_cache(name, tokens, dtype="fp8", engine="vllm").totals["held"]
    assert round(held["bytes"] / GIB, 2) == needed


def test_blocks_of_compressed_attention_by_hand():
    """A page of 64 keys in fp8_ds_mla is 37,376 bytes, 37,440 with the padding to 576 bytes."""
    keys, index, far = (-(-size // 576) * 576 for size in (64 * 584, 64 * 132, 2 * 584))
    assert (keys, index, far) == (37_440, 8_640, 1_728)
    # windows of 43 layers are two groups of 22: so many pages of each size has a block
    block = 22 * (keys + index + far)
    flight, tokens = 2 * 8192, 30_000
    blocks = {
        "keys": -(-tokens // 256),
        "windows": 2 * (-(-(127 + flight) // 64) + 1),
        "open blocks of 4": -(-(7 + flight) // 4) + 1,
        "open blocks of 128": -(-(127 + flight) // 8) + 1,
    }
    held = archcli.count_kv_cache("deepseek-v4-flash", tokens, dtype="fp8", engine="vllm").totals["held"]
    assert held["bytes"] == sum(blocks.values()) * block


@pytest.mark.long
def test_passes_in_flight_go_by_the_chunk():
    def cache(**options):
        options = {"engine": "vllm", "kv_dtype": "fp8", "seq_len": 100_000, **options}
        return archcli.count_memory("deepseek-v4-flash", "serve", **options).totals["parts"]["cache"]

    assert cache(chunk=2048) < cache(chunk=8192) < cache(chunk=16384)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3.2", "mamba2-2.7b"])
def test_other_caches_have_pages_of_their_own(name):
    fits = archcli.count_kv_cache(name, 4096, engine="vllm", memory=GIB).totals["fits"]
    assert "pool" not in fits
