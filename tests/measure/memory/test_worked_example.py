"""The example that docs/memory.md works by hand: its arithmetic, and archcli's figures."""

from pathlib import Path

import pytest

from archcli import count_memory
from table import every_row
from worked import result_of, worked_lines

LINES = worked_lines(Path(__file__).parents[3] / "docs" / "memory.md")


@pytest.fixture(scope="module")
def report():
    return count_memory("gpt2")


@every_row("line", LINES, ids=[line.what for line in LINES])
def test_the_arithmetic_of_the_page_holds(line):
    assert line.value == line.result


def line(start):
    """The bytes of a line."""
    return result_of(LINES, start)


def test_a_layer_is_the_sum_of_the_lines_above_it():
    names = [line.what for line in LINES]
    of_layer = [line.result for line in LINES[: names.index("a layer")]]
    assert sum(of_layer) == line("a layer")


def of_layers(report, *names):
    rows = [row for row in report.rows if row["path"].startswith("layers.")]
    return sum(row["kept_bytes"] for row in rows if row["path"].split(".", 2)[2] in names)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (("attention.q_proj", "attention.k_proj", "attention.v_proj"), "queries, keys and values"),
        (("attention_residual",), "the residual stream after attention"),
        (("ffn.up_proj",), "the wide layer before GELU"),
        (("ffn.activation",), "and after it"),
        (("ffn_residual",), "the residual stream after the network"),
    ],
)
def test_what_a_layer_keeps(report, names, what):
    assert of_layers(report, *names) == 12 * line(what)


def test_norms_and_attention_keep_two_things_each(report):
    norm = 1024 * 768 * 2 + 2 * 1024 * 4
    assert of_layers(report, "attention_norm") == of_layers(report, "ffn_norm") == 12 * norm
    assert of_layers(report, "attention.attend") == 12 * (1024 * 768 * 2 + 12 * 1024 * 4 + 16)


def test_the_peak_is_the_sum_of_the_page(report):
    parts = report.totals["parts"]
    assert parts["weights"] == line("the weights")
    assert parts["optimizer"] == line("optimizer states")
    assert parts["kept"] == report.totals["kept_bytes"] == line("activations kept for backward")
    assert parts["temporaries"] == line("the logits")
    assert parts["loss"] == line("the loss")
    assert report.totals["peak_bytes"] == line("the peak")
    [step] = [m for m in report.totals["moments"] if m["moment"] == "optimizer step"]
    assert step["peak_bytes"] == line("weights, gradients")
