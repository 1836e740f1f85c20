"""The table of Ivanov et al. 2021.

Every operator at the precision they print, and times that are given to operators and never split.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from archcli.load.presets import presets
from archcli.load.source import load
from archcli.measure.params import count_params
from archcli.measure.passes import forward_pass, train_pass
from archcli.render import rendered
from archcli.wings.serving.recorded.operations import OpTime
from ivanov_table import CONTRACTION, ELEMENTWISE, LAYER, MADE_UP, NORMALIZATION, PRINTED, layer, report
from table import every_row

from ivanov.counting import layer_parts, operators  # isort: skip its folder is found by ivanov_table

LETTERS = {"T": CONTRACTION, "N": NORMALIZATION, "E": ELEMENTWISE}
PAGE = Path(__file__).parents[3] / "docs" / "ivanov.md"
WORD, WORDS = "{:.1f}", "{:.2f}"


def in_layers(counted):
    """FLOPs of all rows inside of a layer, forward and backward."""
    rows = [row for row in counted.rows if row.path.startswith("layers.")]
    return sum(
        row.times * piece.flops for row in rows for part in row.parts for piece in (part, *part.backward)
    )


def table(*given, **options):
    return report(*given, **options).totals["ivanov"]


@pytest.fixture(scope="module")
def lines():
    return {line["operator"]: line for line in table()["operators"]}


def printed(line):
    """An operator as the paper prints one: class, GFLOP, and 1e6 words in and out."""
    return (
        line["class"],
        f"{line['flops'] / 1e9:.3f}",
        WORD.format(line["words_read"] / 1e6),
        WORDS.format(line["words_written"] / 1e6),
    )


@every_row("row", PRINTED, ids=lambda row: f"{row['phase']} {row['operator']}")
def test_an_operator_is_what_the_paper_prints(row, lines):
    gflop = f"{float(row['gflop']):.3f}"  # the backward's are printed without a leading zero, none as 0
    expected = (LETTERS[row["class"]], gflop, row["in"], row["out"].replace("~0", "0.00"))
    for name in row["lines"].split(";"):
        assert (name, printed(lines[name])) == (name, expected)
        assert lines[name]["phase"] == row["phase"]


def test_the_page_shows_what_is_counted(lines):
    rows = [
        row.strip("| ").split(" | ")
        for row in PAGE.read_text().partition("## Measured")[0].splitlines()
        if row.startswith("| ")
    ]
    shown = [(name, letter, *map(float, figures)) for name, letter, *figures in rows if letter in LETTERS]
    counted = [
        (
            name,
            letter,
            round(line["flops"] / 1e9, 3),
            round(line["words_read"] / 1e6, 2),
            round(line["words_written"] / 1e6, 2),
        )
        for name, line in lines.items()
        for letter in LETTERS
        if line["class"] == LETTERS[letter]
    ]
    assert shown == counted


def test_the_paper_prints_every_operator(lines):
    named = [name for row in PRINTED for name in row["lines"].split(";")]
    assert sorted(named) == sorted(lines)


def test_every_part_of_the_layer_is_in_one_operator():
    counted = train_pass(layer(), 8, 512)
    assert (
        sum(each.flops for each in operators(counted))
        == sum(piece.part.flops for piece in layer_parts(counted))
        == in_layers(counted)
    )


def test_classes_have_the_shares_of_flop_that_the_paper_prints():
    classes = table()["classes"]
    assert [round(classes[each]["flops"] / 1e9, 4) for each in LETTERS.values()] == [335.0074, 0.5746, 0.1049]
    assert [f"{100 * classes[each]['flop_share']:.2f}" for each in LETTERS.values()] == [
        "99.80",
        "0.17",
        "0.03",
    ]
    assert [classes[each]["paper_time_share"] for each in LETTERS.values()] == [0.610, 0.255, 0.135]


def test_words_of_a_class_are_those_of_its_operators():
    found = table()
    for name in LETTERS.values():
        own = [
            line["words_read"] + line["words_written"] for line in found["operators"] if line["class"] == name
        ]
        assert found["classes"][name]["words"] == sum(own)
    assert sum(each.get("word_share", 0) for each in found["classes"].values()) == pytest.approx(1.0)


def test_times_by_class_add_up_to_the_plain_wall_time():
    classes = {name: each["seconds"] for name, each in table()["classes"].items()}
    assert classes == pytest.approx(
        {
            CONTRACTION: 3 * 0.05 + 0.04 + 0.20,
            NORMALIZATION: 0.02 + 0.01 + 0.05 + 0.06,
            ELEMENTWISE: 0.02,
            "movement": 0.03,
            "random": 0.08,
            "outside of the layer": 0.01,
            "framework": 0.2 + 0.005,
            "unattributed": 1.0 - (0.39 + 0.14 + 0.02) - (0.03 + 0.08) - 0.01 - 0.205,
        },
        abs=1e-9,
    )
    assert sum(classes.values()) == pytest.approx(1.0)


def test_shares_of_the_three_classes_leave_the_rest_out():
    classes = table()["classes"]
    three = [classes[each]["share_of_three"] for each in LETTERS.values()]
    assert three == pytest.approx([0.39 / 0.55, 0.14 / 0.55, 0.02 / 0.55])


TOGETHER = {
    "Q, K, V": (0.15, ["input bias"]),
    "QK^T": (0.04, ["gamma"]),
    "scaled softmax, dropout": (0.03, []),
    "linear 2 dX": (0.20, ["linear 2 dW"]),
    "bias 2 dW": (0.05, []),
    "LayerNorm 2 dW": (0.06, ["LayerNorm 2 dX"]),
    "residual 2 dX": (0.02, ["residual 1 dX"]),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_a_time_that_operators_share_is_not_split(name, lines):
    seconds, others = TOGETHER[name]
    assert lines[name]["seconds"] == pytest.approx(seconds)
    assert lines[name]["timed_with"] is None
    assert [line["operator"] for line in lines.values() if line["timed_with"] == name] == others
    assert all(lines[other]["seconds"] is None for other in others)


def test_what_took_no_time_has_none(lines):
    assert lines["ReLU"]["seconds"] is lines["ReLU"]["timed_with"] is lines["ReLU"]["roof"] is None


def test_the_share_of_a_roof_is_of_all_that_was_measured_together(lines):
    # 2 x 34.36 GFLOP at 1e12 a second, in 0.2 s
    assert lines["linear 2 dX"]["roof"] == "compute"
    assert lines["linear 2 dX"]["roof_share"] == pytest.approx(2 * 2 * 4096 * 1024 * 4096 / 1e12 / 0.20)
    # softmax: 33.55 + 100.66 million words of 4 bytes at 1e10 a second, in 0.03 s: more than memory gives, so
    # a cache's
    assert lines["scaled softmax, dropout"]["roof"] == "cache"
    assert lines["scaled softmax, dropout"]["roof_share"] == pytest.approx(
        4 * 8 * 16 * 512 * 512 * 4 / 1e11 / 0.03
    )


def test_what_was_executed_stands_apart():
    executed = {each["class"]: each for each in table()["executed"]}
    assert executed == {
        CONTRACTION: {
            "class": CONTRACTION,
            "operations": 1,
            "flops": 990,
            "read": 30,
            "written": 10,
            "flop_share": 0.99,
        },
        NORMALIZATION: {
            "class": NORMALIZATION,
            "operations": 1,
            "flops": 8,
            "read": 12,
            "written": 10,
            "flop_share": 0.008,
        },
        ELEMENTWISE: {
            "class": ELEMENTWISE,
            "operations": 3,
            "flops": 2,
            "read": 6,
            "written": 3,
            "flop_share": 0.002,
        },
    }


FUSED = OpTime(f"{LAYER}attention.attend", "forward", "_scaled_dot_product_x", "fused_attention", 0.1, 1)


def test_fused_attention_is_one_time_of_three_operators():
    fused = replace(
        MADE_UP, timed=(*(timed for timed in MADE_UP.timed if not timed.path.endswith("attend")), FUSED)
    )
    found = table(fused)
    lines = {line["operator"]: line for line in found["operators"]}
    assert lines["QK^T"]["seconds"] == pytest.approx(0.1)
    assert [name for name, line in lines.items() if line["timed_with"] == "QK^T"] == [
        "scaled softmax, dropout",
        "gamma",
    ]
    assert found["classes"][CONTRACTION]["share_of_three"] is None
    assert any("--attention eager" in note for note in report(fused).notes)


def test_a_row_without_a_line_has_one_of_its_own():
    counted = train_pass(load("ivanov", ["norm=rmsnorm", "groups.0.layer.ffn.kind=glu"]).model, 1, 4)
    names = [each.line.name for each in operators(counted)]
    assert {"ffn.gate_proj", "ffn.gated", "ffn.gate_proj dX", "ffn.gated dX"} <= set(names)
    assert sum(each.flops for each in operators(counted)) == in_layers(counted) > 0


def test_a_forward_alone_has_no_backward_and_nothing_dropped():
    names = [each.line.name for each in operators(forward_pass(layer(), 1, 4))]
    assert names[:4] == ["Q, K, V", "input bias", "QK^T", "scaled softmax, dropout"]
    assert not [name for name in names if name.endswith(("dX", "dW")) or name == "dropout U"]


def test_other_sizes_are_said_to_be_none_of_the_paper():
    assert any("Not the paper's sizes" in note for note in report(sizes=(1, 4)).notes)
    assert not any("Not the paper's sizes" in note for note in report().notes)


def test_the_headline_says_where_passes_disagree():
    assert (
        report(replace(MADE_UP, plain_s=(0.9,), traced_s=(0.9,))).tables[0].title
        == "Ivanov et al. 2021, Table 1: by class"
    )
    slow = report(replace(MADE_UP, plain_s=(0.7,), traced_s=(0.7,)))
    assert slow.tables[0].title == "Ivanov et al. 2021, Table 1: by class: NOT RELIABLE, see the notes"


def test_the_report_prints_the_papers_digits():
    text = rendered(report(), "plain")
    assert "T matrix products" in text
    for words in (
        "335.007",
        "99.80%",
        "0.575",
        "0.17%",
        "0.105",
        "0.03%",
        "100.66",
        "with Q, K, V",
        "paper, V100",
        "61.0%",
    ):
        assert words in text


def test_the_layer_is_that_of_torch():
    theirs = nn.TransformerEncoderLayer(1024, 16, 4096, device="meta")
    assert count_params(layer()).totals["non_embedding_params"] == sum(
        parameter.numel() for parameter in theirs.parameters()
    )


def test_a_workload_is_no_preset_but_is_found_like_one():
    assert "ivanov" not in presets()
    assert load("ivanov").source == "preset ivanov"
