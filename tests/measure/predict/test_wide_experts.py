"""Experts over more devices than divide their number: copies of some, and what is sent between racks."""

import pytest

import archcli
from archcli.load import load
from archcli.modules.tensor_parallel.shard import shard

# the SGLang team's posts of 2025-06-16 and 2025-09-25: DeepSeek V3 and R1, 48 of a rack's 72 GB200 decode,
# sequences of 2,000 tokens; requests of a device by their scripts, tokens a second of a device
RACK = [
    (768, None, None, 7583),
    (1408, "nvfp4", "fp8", 13386),
]


@pytest.mark.parametrize(("sequences", "dtype", "kv_dtype", "measured"), RACK)
def test_a_racks_published_decoding_lies_in_the_range(sequences, dtype, kv_dtype, measured):
    report = archcli.predict(
        "deepseek-v3",
        device="48xgb200",
        engine="sglang",
        dp=48,
        ep=48,
        batch_size=48 * sequences,
        seq_len=2000,
        dtype=dtype,
        kv_dtype=kv_dtype,
    )
    rate = report.totals["tokens_per_s"]
    assert rate["low"] <= 48 * measured <= rate["high"]
    assert rate["expected"] == pytest.approx(48 * measured, rel=0.12)


def test_published_prefills_over_four_nodes_are_below_the_limit():
    """The same team's post of 2025-05-05: 54,543 tokens a second of 8 H100, prompts of 2,000 over 32."""
    report = archcli.predict(
        "deepseek-v3",
        device="32xh100-sxm",
        engine="sglang",
        dp=32,
        ep=32,
        batch_size=128,
        seq_len=2000,
        phase="prefill",
    )
    assert report.totals["tokens_per_s"]["floor"] > 4 * 54_543


def test_a_rank_has_copies_where_experts_do_not_divide():
    """256 experts over 72 ranks are 288, four each (32 copies), as those posts have them."""
    model = load("deepseek-v3")
    held = {
        ep: archcli.memory(model, phase="serve", engine="vllm", dp=ep, ep=ep, batch_size=ep, seq_len=64)
        for ep in (64, 72)
    }
    whole, copied = (held[ep].totals["parts"]["weights"] for ep in (64, 72))
    assert whole == copied  # 256 / 64 is four as well
    with pytest.raises(archcli.ArchError, match="ep 72 does not divide n_experts 256"):
        archcli.memory(model, phase="train", dp=72, ep=72, batch_size=72, seq_len=64)
    with pytest.raises(archcli.ArchError, match="ep 3 does not divide n_experts 256"):
        shard(model, ep=3)


def test_the_hint_of_a_tp_that_splits_no_head_is_a_plan_that_runs():
    with pytest.raises(archcli.ArchError, match="dp 72 with ep 72 shares the experts alone"):
        archcli.predict("deepseek-v3", device="72xgb200", tp=72, ep=72)
