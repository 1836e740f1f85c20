"""Recomputed layers of which some operations keep their results, as torch's selective checkpointing does."""

import pytest

from archcli import ArchError, count_memory, predict

B, T, D, HEADS, LAYERS, BF16, FP32 = 2, 128, 768, 12, 12, 2, 4
ATTEND = "keep:layers.*.attention.attend"


def memory(recompute):
    return count_memory("gpt2", batch_size=B, seq_len=T, recompute=recompute, loss="fused").totals


def seconds(recompute):
    rows = predict("gpt2", "h100-sxm", "train", batch_size=B, seq_len=T, recompute=recompute).rows
    return {row["path"] for row in rows if row["stage"] == "recomputed"}


def test_a_layer_keeps_its_input_and_the_results_that_are_named():
    """Of attention its result, the logarithms of its sums, and two random numbers."""
    more = memory(f"layer,{ATTEND}")["kept_bytes"] - memory("layer")["kept_bytes"]
    assert more == LAYERS * (B * T * D * BF16 + B * HEADS * T * FP32 + 16)


def test_a_projection_keeps_its_result_alone():
    more = memory("layer,keep:layers.*.ffn.up_proj")["kept_bytes"] - memory("layer")["kept_bytes"]
    assert more == LAYERS * B * T * 4 * D * BF16


def test_what_is_kept_lies_between():
    peaks = [memory(setting)["peak_bytes"] for setting in ("layer", f"layer,{ATTEND}", "none")]
    assert peaks == sorted(peaks)


def test_what_is_kept_is_not_run_again():
    again, less = seconds("layer"), seconds(f"layer,{ATTEND}")
    assert again - less == {path for path in again if path.endswith("attention.attend")} != set()


@pytest.mark.parametrize("setting", [ATTEND, "keep:layers.*.nothing", f"none,{ATTEND}"])
def test_there_must_be_something_to_keep(setting):
    with pytest.raises(ArchError, match="nothing is recomputed"):
        memory(setting)


def test_what_is_named_must_be_there():
    with pytest.raises(ArchError, match=r"'keep:layers\.\*\.nothing' matches no module or operation"):
        memory("layer,keep:layers.*.nothing")
