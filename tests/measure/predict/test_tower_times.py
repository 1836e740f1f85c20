"""The time of towers: their kernels beside the language model's, with the FLOPs that `flops` counts."""

import pytest

import archcli
from small_towers import CONFIGS, small_model
from table import sampled_rows

DEVICE = "h100-sxm"


def predicted(name, phase="prefill", **options):
    model, image = small_model(name)
    return archcli.predict(model, DEVICE, phase=phase, image=[image], **options)


def flops_of(totals):
    """FLOPs of the architecture: the share of the peak in the time that it takes."""
    return totals["mfu"] * totals["time_s"]["expected"] * 989.4e12 * totals["devices"]


def rows_of(report, part):
    return [row for row in report.rows if row["path"].startswith(f"{part}.")]


@sampled_rows("name", CONFIGS, 4)
def test_the_flops_of_towers_are_those_that_are_counted(name):
    model, image = small_model(name)
    sizes = {"seq_len": 32, "batch_size": 2}
    report = predicted(name, engine="none", **sizes)
    counted = archcli.count_flops(model, phase="prefill", image=[image], **sizes).totals
    assert flops_of(report.totals) == pytest.approx(counted["matmul_flops_with_towers"], rel=1e-4)
    for part in ("vision_tower", "projector"):
        products = (row["flops"] for row in rows_of(report, part) if row["class"] == "contraction")
        attention = (row["flops"] for row in rows_of(report, part) if row["class"] == "fused_attention")
        (entry,) = counted["media"]
        assert sum(products) + sum(attention) >= entry["by_part"][part] * 0.98
        assert report.totals["by_part"][part] == pytest.approx(
            sum(row["time_s"] for row in rows_of(report, part))
        )


def test_towers_take_time_before_the_language_model():
    """A prefill takes the time of the text's tokens and that of the tower."""
    model, _ = small_model("qwen2_vl")
    with_image = predicted("qwen2_vl", seq_len=9, engine="none").totals
    text = archcli.predict(model, DEVICE, phase="prefill", seq_len=29, engine="none").totals
    parts = with_image["by_part"]
    assert with_image["prompt_tokens"] == 29
    assert with_image["media"][0]["tokens"] == 20
    assert with_image["time_s"]["floor"] > text["time_s"]["floor"]
    assert parts["language_model"] == pytest.approx(sum(row["time_s"] for row in text_rows(model)))
    assert parts["vision_tower"] > parts["projector"] > 0


def text_rows(model):
    rows = archcli.predict(model, DEVICE, phase="prefill", seq_len=29, engine="none").rows
    return [row for row in rows if row["path"] != "host"]


def test_decoding_runs_no_tower_and_finds_the_image_in_the_cache():
    report = predicted("qwen2_vl", "decode", seq_len=9)
    assert rows_of(report, "vision_tower") == rows_of(report, "projector") == []
    model, _ = small_model("qwen2_vl")
    text = archcli.predict(model, DEVICE, phase="decode", seq_len=29).totals
    assert report.totals["time_s"] == text["time_s"]
    assert report.totals["needed_bytes"] == text["needed_bytes"]


@pytest.mark.long
def test_serving_runs_the_towers_in_its_prefill():
    served = predicted("qwen2_vl", "serve", seq_len=9, new=4)
    model, _ = small_model("qwen2_vl")
    text = archcli.predict(model, DEVICE, phase="serve", seq_len=29, new=4)
    assert {row["stage"] for row in rows_of(served, "vision_tower")} == {"prefill"}
    assert flops_of(served.totals) > flops_of(text.totals)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("recompute", ["none", "layer"])
def test_training_runs_towers_forward_and_backward_and_updates_them(recompute):
    model, image = small_model("qwen2_vl")
    report = predicted("qwen2_vl", "train", seq_len=9, grad_accum=2, recompute=recompute)
    counted = archcli.count_flops(model, phase="train", seq_len=9, image=[image]).totals
    assert flops_of(report.totals) == pytest.approx(2 * counted["matmul_flops_with_towers"], rel=1e-4)
    stages = {row["stage"] for row in rows_of(report, "vision_tower")} - {"sums"}
    assert stages == {"forward", "backward", *(["recomputed"] if recompute == "layer" else [])}
    updates = [row for row in report.rows if row["path"] == "update"]
    params = archcli.count_params(model).totals["params_with_towers"]
    # of each weight a gradient and three numbers of 4 bytes read, those and the weight written
    assert sum(row["bytes"] for row in updates) >= params * (2 + 12 + 12 + 2)


def test_replicas_share_the_images_of_a_batch():
    one, two = (predicted("qwen2_vl", seq_len=9, batch_size=4, engine="none", dp=n).totals for n in (1, 2))
    assert flops_of(one) == pytest.approx(flops_of(two))
    assert two["time_s"]["floor"] < one["time_s"]["floor"]
