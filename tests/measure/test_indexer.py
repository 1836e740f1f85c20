"""Sparse attention of DeepSeek-V3.2 by component, with the arithmetic in the open; gradients that stop."""

import pytest

import archcli
from archcli.errors import ArchError

LAYERS, HEADS, NOPE, ROPE, VALUE, LATENT = 61, 128, 128, 64, 128, 512
INDEX_HEADS, INDEX_WIDTH, CHOSEN, D, QUERIES = 64, 128, 2048, 7168, 1536

SPARSE = f"""
name: sparse
vocab_size: 129280
d_model: {D}
norm: rmsnorm
groups:
  - n_layers: {LAYERS}
    layer:
      kind: pre_norm
      attention:
        kind: mla
        n_heads: {HEADS}
        q_lora_rank: {QUERIES}
        kv_lora_rank: {LATENT}
        qk_nope_head_dim: {NOPE}
        qk_rope_head_dim: {ROPE}
        v_head_dim: {VALUE}
        position: {{kind: rope, pairing: interleaved}}
        index: {{top_k: {CHOSEN}, n_heads: {INDEX_HEADS}, head_dim: {INDEX_WIDTH}, pairing: half}}
      ffn: {{kind: glu, d_ff: 18432}}
"""
WEIGHTS = QUERIES * INDEX_HEADS * INDEX_WIDTH + D * INDEX_WIDTH + D * INDEX_HEADS


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    path = tmp_path_factory.mktemp("sparse") / "sparse.yaml"
    path.write_text(SPARSE)
    return archcli.load(path)


def by_component(model, **request):
    return archcli.count_flops(model, **request).totals["by_component"]


def test_at_128k_the_indexer_is_dearer_than_the_attention_that_it_saves(sparse):
    tokens = 128 * 1024
    counted = by_component(sparse, seq_len=tokens)
    every = tokens * (tokens + 1) // 2
    read = CHOSEN * (CHOSEN + 1) // 2 + (tokens - CHOSEN) * CHOSEN
    scores = 2 * INDEX_HEADS * INDEX_WIDTH * every + 2 * INDEX_HEADS * every
    assert counted["indexer"] == LAYERS * (2 * tokens * WEIGHTS + scores)
    assert counted["attention_scores"] == LAYERS * 2 * HEADS * (NOPE + ROPE + VALUE) * read
    assert counted["indexer"] > 6 * counted["attention_scores"]


def test_all_pairs_are_what_a_dense_run_computes(sparse):
    tokens = 4096
    counted = by_component(sparse, seq_len=tokens, mask="dense")
    scores = 2 * INDEX_HEADS * (INDEX_WIDTH + 1) * tokens**2
    assert counted["indexer"] == LAYERS * (2 * tokens * WEIGHTS + scores)
    assert counted["attention_scores"] == LAYERS * 2 * HEADS * (NOPE + ROPE + VALUE) * tokens**2


def test_a_decoded_token_scores_all_tokens_and_reads_a_few(sparse):
    past = 128 * 1024
    counted = by_component(sparse, phase="decode", past=past)
    scores = 2 * INDEX_HEADS * (INDEX_WIDTH + 1) * (past + 1)
    assert counted["indexer"] == LAYERS * (2 * WEIGHTS + scores)
    # on the latents: LATENT + ROPE wide keys, LATENT wide values
    assert counted["attention_scores"] == LAYERS * 2 * HEADS * (LATENT + ROPE + LATENT) * CHOSEN


def test_the_cache_has_a_key_of_the_index_beside_the_latent(sparse):
    totals = archcli.count_kv_cache(sparse, context=1000).totals
    assert totals["elements"] == LAYERS * 1000 * (LATENT + ROPE + INDEX_WIDTH)


def test_an_indexer_has_parameters_that_no_gradient_reaches(sparse):
    totals = archcli.count_params(sparse).totals
    assert totals["by_group"]["indexer"] == LAYERS * (WEIGHTS + 2 * INDEX_WIDTH)
    assert totals["trainable_params"] == totals["params"]
    ahead, trained = (
        by_component(sparse, seq_len=64, phase=phase)["indexer"] for phase in ("forward", "train")
    )
    assert trained == ahead


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("window=64", "window"),
        ("causal=false", "causal: false"),
        ("index.head_dim=32", "64 dims"),
        ("position=none", "pairing"),
        ("index.top_k=0", "top_k"),
    ],
)
def test_what_contradicts_an_index_is_refused(change, word, tmp_path):
    path = tmp_path / "sparse.yaml"
    path.write_text(SPARSE)
    with pytest.raises(ArchError) as refused:
        archcli.load(path, [f"groups.0.layer.attention.{change}"])
    assert word in str(refused.value)
