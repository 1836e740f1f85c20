"""What engines take memory for besides weights and cache: an indexer's scores, workspaces, graphs."""

import pytest

import archcli
from archcli.load.presets import presets
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.settings import MemorySettings
from table import every_row, sampled_rows

MIB, GIB = 2**20, 2**30
FP32, HALF = 4, 2
MASKS = {"llamacpp": 2 * HALF}
"""Bytes a pair of masks of whole contexts: llama.cpp's graph has one, and one of the indexer."""
CHUNK, CONTEXT = 1024, 65536
IN_KERNELS = ("vllm", "sglang", "trtllm", "llamacpp")
"""Engines whose indexers add the scores of heads up in a kernel; MLX's does not (models/deepseek_v32.py)."""
INDEXED = ("deepseek-v3.2", "deepseek-v4-flash", "deepseek-v4-pro", "glm-5", "glm-5.2", "glm-5.3-flash")


def moments(model, engine, chunk, context, phase="prefill"):
    settings = MemorySettings(phase, 1, context, dtype="bf16", engine=engine_of(engine), chunk=chunk)
    return MemoryQuestion(model, settings).answer().largest.moments


def growth(name, engine, phase="prefill"):
    """By operation: bytes of temporaries that each pair of a new token and a token of the context adds."""
    model, of_size = archcli.load(name), {}
    if not model.caches:
        return {}
    for chunk in (CHUNK, 2 * CHUNK):
        for context in (CONTEXT, 2 * CONTEXT):
            of_size[chunk, context] = moments(model, engine, chunk, context, phase)
    small, long, wide, both = (of_size[n, s] for n in (CHUNK, 2 * CHUNK) for s in (CONTEXT, 2 * CONTEXT))
    return {
        a.path: (d.temporaries - b.temporaries - c.temporaries + a.temporaries) / (CHUNK * CONTEXT)
        for a, b, c, d in zip(small, long, wide, both, strict=True)
    }


@sampled_rows("name, engine", [(name, engine) for name in INDEXED for engine in IN_KERNELS], 1)
def test_an_indexer_holds_the_scores_of_all_its_heads_once(name, engine):
    grown = growth(name, engine)
    scores = {path: bytes_of for path, bytes_of in grown.items() if path.endswith("indexer.top_k")}
    assert scores
    # a block of 4 tokens has one key; below 0 where a piece is full before the longest pass
    assert max(grown.values()) <= FP32 + MASKS.get(engine, 0)


def test_of_the_scores_llamacpp_and_trtllm_hold_all_and_vllm_a_piece():
    for engine in ("llamacpp", "trtllm"):
        grown, masks = growth("deepseek-v3.2", engine), MASKS.get(engine, 0)
        assert {grown[path] for path in grown if path.endswith("indexer.top_k")} == {FP32 + masks}
    # 2,048 x 131,072 x 4 bytes are 1 GiB, and vLLM's pieces have 512 MiB
    model = archcli.load("deepseek-v3.2")
    whole, pieces = (
        max(
            moment.temporaries
            for moment in moments(model, engine, 2048, 131072)
            if moment.path.endswith("indexer.top_k")
        )
        for engine in ("trtllm", "vllm")
    )
    assert whole - pieces == 2048 * 131072 * FP32 - 512 * MIB


@pytest.mark.long
@pytest.mark.parametrize("engine", IN_KERNELS)
@every_row("name", presets())
def test_no_temporary_grows_with_chunk_x_context_x_heads(name, engine):
    for phase in ("prefill", "serve"):
        most = FP32 + MASKS.get(engine, 0)
        assert max(growth(name, engine, phase).values(), default=0) <= most, phase


# MiB of the compute buffer that llama.cpp 0c1e5709 reserves on one card as a server, by its own dry run
# (llama_get_memory_breakdown, no_alloc): model, context, micro batch, sequences, type of the cache, form
BUFFERS = [
    ("llama-3.1-8b", 8192, 512, 1, "fp16", "q8_0", 116.01),
    ("llama-3.1-8b", 131072, 2048, 1, "fp16", "fp16", 944.04),
    ("llama-3.1-8b", 32768, 512, 1, "q8_0", "q8_0", 192.09),
    ("llama-3.1-70b", 32768, 512, 1, "fp16", "q8_0", 248.01),
    ("qwen3-8b", 32768, 512, 4, "q8_0", "q8_0", 576.09),
    ("qwen2.5-0.5b", 4096, 2048, 1, "fp16", "fp16", 151.04),
    ("mixtral-8x7b", 32768, 512, 1, "fp16", "q8_0", 224.01),
    ("qwen3-30b-a3b", 32768, 512, 1, "fp16", "q8_0", 116.01),
    ("deepseek-v2-lite", 32768, 512, 1, "fp16", "q8_0", 108.13),
    ("qwen3.5-35b-a3b", 65536, 512, 1, "fp16", "q8_0", 132.02),
    ("lfm2-1.2b", 32768, 512, 1, "fp16", "bf16", 88.03),
    ("gemma-3-4b", 131072, 512, 1, "fp16", "q8_0", 203.52),
    ("gemma-3-4b", 32768, 2048, 4, "fp16", "q8_0", 436.07),
    ("granite-4.0-h-tiny", 131072, 512, 1, "q8_0", "q8_0", 399.09),
]


@pytest.mark.long
@every_row(("name", "context", "chunk", "sequences", "cache", "form", "reserved"), BUFFERS)
def test_the_compute_buffer_is_no_less_and_little_more(
    name, context, chunk, sequences, cache, form, reserved
):
    sizes = {"seq_len": context, "chunk": chunk, "batch_size": sequences, "kv_dtype": cache, "dtype": form}
    report = archcli.count_memory(name, "serve", engine="llamacpp", **sizes)
    assert 1 <= report.totals["parts"]["temporaries"] / MIB / reserved <= 1.42


def test_a_mask_of_the_whole_context_is_part_of_the_graph():
    """Llama 3.1 8B: 2 bytes for each new token and each cell."""
    options = {"engine": "llamacpp", "chunk": 512, "dtype": "q8_0"}
    short, long = (
        archcli.count_memory("llama-3.1-8b", "serve", seq_len=tokens, **options).totals["parts"]
        for tokens in (8192, 131072)
    )
    assert long["temporaries"] - short["temporaries"] == HALF * 512 * (131072 - 8192)


CARDS = [("llama-3.1-70b", 2, (408.04, 472.04)), ("llama-3.1-8b", 2, (268.04, 300.04))]
"""The same of several cards, for 32,768 tokens in q8_0."""


@every_row(("name", "cards", "reserved"), CARDS)
def test_several_cards_hold_what_enters_them_four_times(name, cards, reserved):
    sizes = {"seq_len": 32768, "chunk": 512, "dtype": "q8_0", "engine": "llamacpp"}
    one, several = (
        archcli.count_memory(name, "serve", plan={"pp": pp}, **sizes).totals["ranks"] for pp in (1, cards)
    )
    by_stage = sorted(several, key=lambda rank: rank["stage"])
    counted = [rank["parts"]["temporaries"] for rank in by_stage]
    mask, hidden = HALF * 512 * 32768, 512 * archcli.load(name).d_model * FP32
    first = one[0]["parts"]["temporaries"] + 3 * mask + 4 * hidden
    assert counted == [first, first + 4 * hidden]
    for bytes_of, figure in zip(counted, reserved, strict=True):
        assert 1 <= bytes_of / MIB / figure < 1.12


def served(name, **options):
    options = {"engine": "vllm", "seq_len": 4096, **options}
    return archcli.count_memory(name, "serve", **options).totals


def test_vllm_samples_as_many_sequences_as_run_at_once():
    """A card of 32 GB runs 256, of 80 GB 1,024; logits of all words in bf16, fp32, and probabilities."""
    for device, sequences in (("rtx-5090", 256), ("h100-sxm", 1024)):
        totals = served("llama-3.2-1b", device=device)
        assert totals["path"] == "sampler"
        assert totals["parts"]["temporaries"] == sequences * 128_256 * (2 + 4 + 4)
    shared = served("llama-3.2-1b", device="2xh100-sxm", plan={"tp": 2})
    assert shared["parts"]["temporaries"] == 1024 * 128_256 * 10


def test_vllm_runs_a_whole_chunk_at_first_however_short_a_prompt_is():
    short, long = (
        max(
            moment.temporaries
            for moment in moments(archcli.load("llama-3.1-70b"), "vllm", 8192, tokens, "serve")
        )
        for tokens in (512, 8192)
    )
    assert 0.9 < short / long <= 1


def test_graphs_are_beyond_the_model_as_logs_print_them():
    graphs = [part for part in served("llama-3.2-1b")["beyond"] if part["label"] == "CUDA graphs"]
    assert [(part["least_bytes"], part["bytes"]) for part in graphs] == [(100 * MIB, 600 * MIB)]
    assert not any(
        part["label"] == "CUDA graphs" for part in served("llama-3.2-1b", engine="sglang")["beyond"]
    )


def test_keys_of_an_indexer_are_gathered_outside_of_the_cache():
    """The comment of get_max_prefill_buffer_size in vLLM: 40 x 163,840 x 132 = 865,075,200 bytes."""
    for name, rate in (("deepseek-v3.2", 1), ("deepseek-v4-flash", 4)):
        beyond = {part["label"]: part["bytes"] for part in served(name, seq_len=163_840)["beyond"]}
        assert beyond["keys of the indexer"] == 865_075_200 // rate
    assert "keys of the indexer" not in {part["label"] for part in served("deepseek-v3")["beyond"]}


OUT_OF_MEMORY = {
    # vllm-project/vllm#41695: Qwen3.6-27B-FP8, text alone: no memory for the cache
    "qwen3.5-27b": {"dtype": "fp8-block", "device": "rtx-5090", "utilization": 0.95, "seq_len": 16384},
    # vllm-project/vllm#40592: 8 x H20 of 96 GB
    "deepseek-v3.2": {"device": "8xh20", "plan": {"tp": 8}, "seq_len": 163840},
}
SERVED = {
    # vllm-project/vllm#28228: Kimi-Linear in AWQ with chunks of 64,000 tokens
    "kimi-linear-48b-a3b": {
        "device": "2xrtx-3090",
        "plan": {"tp": 2},
        "dtype": "awq-int4",
        "utilization": 0.95,
        "seq_len": 120_000,
        "chunk": 64_000,
    },
    # tenstorrent/tt-inference-server#143
    "qwen2.5-72b": {"device": "2xh100-sxm", "plan": {"tp": 2}, "seq_len": 1152},
    # sgl-project/sglang#11309
    "deepseek-v3.2": {"device": "8xh200-sxm", "plan": {"tp": 8}, "seq_len": 131072},
}


@every_row(("name", "options"), OUT_OF_MEMORY.items())
def test_what_ran_out_of_memory_does_not_fit(name, options):
    assert served(name, **options)["fits"] is False


@every_row(("name", "options"), SERVED.items())
def test_what_ran_fits(name, options):
    assert served(name, **options)["fits"] is True
