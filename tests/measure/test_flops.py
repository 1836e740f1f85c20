"""FLOPs of the small decoder, each worked out by hand: 2 per multiply-add."""

import pytest

from archcli.errors import ArchError
from archcli.measure.flops import count_flops
from archcli.modules import GLU, Group, LinearAttention, MixtureOfExperts, MultiHeadLatentAttention
from archcli.modules.spec.request import Request
from small import NORM, attention, decoder, layer

T = 5
PROJECTIONS = 8 * 8 + 2 * 8 * 4 + 8 * 8
PAIRS = 1 + 2 + 3 + 4 + 5


def totals(model=None, **options):
    return asked(model or decoder(), **options).totals


def asked(model, mask="exact", mla="naive", **options):
    return count_flops(model, Request(**{"seq_len": T} | options, forms={"mla": mla}), mask=mask)


def test_a_forward_by_component():
    assert totals()["by_component"] == {
        "ffn": 3 * 2 * T * 3 * 8 * 12,
        "lm_head": 2 * T * 8 * 50,
        "attention_proj": 3 * 2 * T * PROJECTIONS,
        "attention_scores": 3 * 2 * PAIRS * 4 * (2 + 2),
    }


@pytest.mark.parametrize(("causal", "features"), [(True, "elu"), (False, "elu"), (True, "softmax")])
def test_linear_attention_has_projections_and_a_recurrence(causal, features):
    linear = LinearAttention(n_heads=4, causal=causal, features=features, n_features=3)
    m = 2 if features == "elu" else 3
    found = totals(decoder(Group(n_layers=3, layer=layer(linear))))["by_component"]
    assert found["attention_proj"] == 3 * 2 * T * 4 * 8 * 8
    random_features = 2 * 2 * T * 4 * 2 * 3 if features == "softmax" else 0  # of queries and of keys
    sums = 2 * 2 * T * 4 * m * 2 + 2 * T * 4 * m  # S of keys and values, what is read of it, and q z
    within = 2 * PAIRS * 4 * (m + 2) if causal else 0  # all tokens are in one chunk
    assert found["recurrence"] == 3 * (random_features + sums + within)
    assert "attention_scores" not in found


def test_totals_add_up():
    found = totals()
    assert found["matmul_flops"] == sum(found["by_component"].values()) == 2 * found["macs"]
    assert sum(found["by_class"].values()) == found["matmul_flops"] + found["other_flops"]
    assert found["by_class"]["contraction"] == found["matmul_flops"]
    assert found["matmul_flops_per_token"] * T == found["matmul_flops"]


def test_a_dense_mask_counts_all_pairs():
    assert totals(mask="dense")["by_component"]["attention_scores"] == 3 * 2 * T * T * 4 * (2 + 2)


def test_a_window_counts_what_it_lets_through():
    model = decoder(Group(n_layers=3, layer=layer(attention(window=2))))
    assert totals(model)["by_component"]["attention_scores"] == 3 * 2 * (1 + 2 + 2 + 2 + 2) * 4 * (2 + 2)
    assert totals(model, mask="dense")["by_component"]["attention_scores"] == 3 * 2 * T * T * 4 * (2 + 2)


def test_batches_multiply():
    one, many = totals(), totals(batch_size=7)
    assert many["matmul_flops"] == 7 * one["matmul_flops"]
    assert many["matmul_flops_per_token"] == one["matmul_flops_per_token"]


def test_training_is_three_forwards():
    """Every matrix product has two operands, and both need a gradient."""
    assert totals(phase="train")["matmul_flops"] == 3 * totals()["matmul_flops"]


def test_the_last_logits_alone():
    assert totals(logits="last")["by_component"]["lm_head"] == 2 * 8 * 50
    assert totals(phase="prefill")["by_component"] == totals(logits="last")["by_component"]
    assert totals(phase="prefill", logits="all")["by_component"] == totals()["by_component"]


@pytest.mark.parametrize(("past", "keys"), [(0, 1), (1, 2), (9, 10)])
def test_decoding_one_token(past, keys):
    found = totals(phase="decode", past=past)
    assert found["by_component"]["attention_scores"] == 3 * 2 * keys * 4 * (2 + 2)
    assert found["by_component"]["lm_head"] == 2 * 8 * 50
    assert found["tokens"] == 1


def test_decoding_sees_the_window_alone():
    model = decoder(Group(n_layers=3, layer=layer(attention(window=4))))
    for mask in ("exact", "dense"):
        assert totals(model, phase="decode", past=100, mask=mask)["by_component"][
            "attention_scores"
        ] == 3 * 2 * 4 * 4 * (2 + 2)


def test_a_decoding_pass_follows_seq_len_tokens_where_past_is_left_out():
    assert totals(phase="decode") == totals(phase="decode", past=T)
    assert Request(phase="decode").resolved().past == 2048


def test_the_steps_of_a_sequence_add_up():
    """Prefill and decoding steps do, pair by pair, what one full pass does."""
    steps = [totals(phase="prefill", seq_len=2)] + [totals(phase="decode", past=past) for past in (2, 3, 4)]
    for component in ("attention_scores", "attention_proj", "ffn"):
        assert sum(step["by_component"][component] for step in steps) == totals()["by_component"][component]


def test_a_prefill_after_cached_tokens():
    later = totals(phase="prefill", seq_len=2, past=3)["by_component"]["attention_scores"]
    assert later == 3 * 2 * (4 + 5) * 4 * (2 + 2)
    assert totals(seq_len=2, past=3)["by_component"]["attention_scores"] == later


def test_experts_count_their_k_tokens_and_the_router():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5), shared=GLU(d_ff=7))
    found = totals(decoder(Group(n_layers=3, layer=layer(ffn=moe))))["by_component"]
    assert found["experts"] == 3 * 2 * (T * 2) * 3 * 8 * 5
    assert found["router"] == 3 * 2 * T * 8 * 6
    assert found["shared_experts"] == 3 * 2 * T * 3 * 8 * 7


def latent(**changes):
    sizes = {
        "n_heads": 4,
        "kv_lora_rank": 6,
        "qk_nope_head_dim": 3,
        "qk_rope_head_dim": 2,
        "v_head_dim": 5,
        "latent_norm": NORM,
    }
    return decoder(Group(n_layers=3, layer=layer(MultiHeadLatentAttention(**sizes | changes))))


def test_mla_naive_rebuilds_keys_and_values():
    projections = 8 * 4 * (3 + 2) + 8 * (6 + 2) + 6 * 4 * (3 + 5) + 4 * 5 * 8
    found = totals(latent())["by_component"]
    assert found["attention_proj"] == 3 * 2 * T * projections
    assert found["attention_scores"] == 3 * 2 * PAIRS * 4 * ((3 + 2) + 5)


def test_mla_absorbed_works_on_the_latents():
    projections = 8 * 4 * (3 + 2) + 8 * (6 + 2) + 4 * 3 * 6 + 4 * 5 * 6 + 4 * 5 * 8
    found = totals(latent(), mla="absorbed")["by_component"]
    assert found["attention_proj"] == 3 * 2 * T * projections
    assert found["attention_scores"] == 3 * 2 * PAIRS * 4 * ((6 + 2) + 6)


def test_mla_decoding_rebuilds_every_cached_token_unless_absorbed():
    naive, absorbed = (
        totals(latent(), phase="decode", past=9, mla=form)["by_component"] for form in ("naive", "absorbed")
    )
    same = 8 * 4 * (3 + 2) + 8 * (6 + 2) + 4 * 5 * 8
    assert naive["attention_proj"] == 3 * 2 * (same + 10 * 6 * 4 * (3 + 5))
    assert absorbed["attention_proj"] == 3 * 2 * (same + 4 * 3 * 6 + 4 * 5 * 6)


def test_decoding_is_absorbed_unless_another_form_is_asked_for():
    decode = {"phase": "decode", "past": 9}
    auto = asked(latent(), mla="auto", **decode)
    absorbed, naive = (asked(latent(), mla=form, **decode).totals for form in ("absorbed", "naive"))
    assert auto.totals == absorbed == count_flops(latent(), Request(**{"seq_len": T} | decode)).totals
    assert auto.inputs["mla"] == "absorbed"
    ratio = naive["matmul_flops"] / absorbed["matmul_flops"]
    assert auto.notes == (f"--mla naive takes {naive['matmul_flops']:,} matmul FLOPs, {ratio:.3g}x as many.",)
    assert totals(latent(), mla="auto") == totals(latent(), mla="naive")


def test_macs_halve_what_is_shown_and_nothing_else():
    plain, halved = (
        count_flops(decoder(), Request(seq_len=T)),
        count_flops(decoder(), Request(seq_len=T), macs=True),
    )
    assert plain.totals == halved.totals
    shown = [table.footer["matmul"] for report in (plain, halved) for table in report.tables if table.footer]
    assert shown == [plain.totals["matmul_flops"], plain.totals["macs"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"phase": "train", "past": 3}, "training starts from an empty cache"),
        ({"phase": "train", "logits": "last"}, "training needs the logits at every position"),
    ],
)
def test_contradictions_are_refused(options, said):
    with pytest.raises(ArchError, match=said):
        totals(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seq_len": 17}, "17 tokens are beyond max_seq_len 16"),
        ({"phase": "decode", "past": 16}, "17 tokens are beyond max_seq_len 16"),
        ({"source_len": 4}, "--source-len has no effect"),
        ({"mla": "absorbed"}, "--mla has no effect"),
    ],
)
def test_what_is_odd_is_answered_with_a_note(options, said):
    report = asked(decoder(max_seq_len=16), **options)
    assert [note for note in report.notes if said in note]
    assert not count_flops(decoder(max_seq_len=16), Request(seq_len=16)).notes
