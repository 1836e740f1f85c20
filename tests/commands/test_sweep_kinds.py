"""Kinds of attention in a sweep: the sizes that each takes, worked out."""

import archcli


def test_latent_attention_takes_the_sizes_that_kvcache_compares(llama):
    """Four heads of 8: a latent of 4 x 8, a rotary key of 8 / 2, as DeepSeek-V2, arXiv:2405.04434, 2.1.4."""
    report = archcli.sweep(llama, vary="attention.kind=gqa,mla", show="kv_bytes_per_token")
    of_gqa = 2 * 61 * 32 + 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48 + 2 * 32) + 32
    latent, rotary, heads = 32, 4, 4 * 8
    query, down, up = 32 * 4 * (8 + rotary), 32 * (latent + rotary) + latent, latent * 2 * heads
    of_mla = of_gqa + 2 * (query + down + up + heads * 32 - (2 * 32 * heads + 2 * 32 * 2 * 8))
    assert [row["params"] for row in report.rows] == [of_gqa, of_mla]
    assert [row["kv_bytes_per_token"] for row in report.rows] == [
        2 * 2 * 2 * 2 * 8,
        2 * 2 * (latent + rotary),
    ]
    [taken] = [note for note in report.notes if "takes" in note]
    assert "kv_lora_rank 32, qk_nope_head_dim 8, qk_rope_head_dim 4, v_head_dim 8" in taken


def test_sizes_that_another_kind_takes_vary_by_their_names(llama):
    report = archcli.sweep(llama, vary=["attention.kind=gqa,mla", "kv_lora_rank=4,8"])
    rows = [(row["attention.kind"], row["kv_lora_rank"]) for row in report.rows]
    assert rows == [("gqa", None), ("mla", 4), ("mla", 8)]
    assert not any("kv_lora_rank" in note for note in report.notes)


def test_a_kind_with_fields_of_its_own(cli, llama):
    """Fields that one kind alone has vary in it alone."""
    path = "groups.0.layer.attention"
    own = {"kv_lora_rank": "4,8", "qk_nope_head_dim": "8", "qk_rope_head_dim": "4", "v_head_dim": "8"}
    vary = [f"{path}.kind=gqa,mla", *(f"{path}.{key}={values}" for key, values in own.items())]
    report = archcli.sweep(llama, vary=vary, show="kv_bytes_per_token")
    rows = [(row[f"{path}.kind"], row[f"{path}.kv_lora_rank"]) for row in report.rows]
    assert rows == [("gqa", None), ("mla", 4), ("mla", 8)]
    per_token = [row["kv_bytes_per_token"] for row in report.rows]
    assert per_token == [2 * 2 * 2 * 2 * 8, 2 * 2 * (4 + 4), 2 * 2 * (8 + 4)]
