"""What engines take memory for besides weights and cache: an indexer's scores, workspaces, graphs."""

import pytest

import archcli
from archcli.load.presets import presets
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.settings import MemorySettings
from table import every_row

MIB, GIB = 2**20, 2**30
FP32 = 4
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


@every_row(("name", "engine"), [(name, engine) for name in INDEXED for engine in IN_KERNELS])
def test_an_indexer_holds_the_scores_of_all_its_heads_once(name, engine):
    grown = growth(name, engine)
    scores = {path: bytes_of for path, bytes_of in grown.items() if path.endswith("indexer.top_k")}
    assert scores
    # a block of 4 tokens has one key; below 0 where a piece is full before the longest pass
    assert max(grown.values()) <= FP32


def test_of_the_scores_llamacpp_holds_all_and_vllm_a_piece():
    grown = growth("deepseek-v3.2", "llamacpp")
    assert {grown[path] for path in grown if path.endswith("indexer.top_k")} == {FP32}
    # 2,048 x 131,072 x 4 bytes are 1 GiB, and vLLM's pieces have 512 MiB
    model = archcli.load("deepseek-v3.2")
    whole, pieces = (
        max(
            moment.temporaries
            for moment in moments(model, engine, 2048, 131072)
            if moment.path.endswith("indexer.top_k")
        )
        for engine in ("llamacpp", "vllm")
    )
    assert whole - pieces == 2048 * 131072 * FP32 - 512 * MIB


@pytest.mark.long
@pytest.mark.parametrize("engine", IN_KERNELS)
@every_row("name", presets())
def test_no_temporary_grows_with_chunk_x_context_x_heads(name, engine):
    for phase in ("prefill", "serve"):
        assert max(growth(name, engine, phase).values(), default=0) <= FP32, phase
