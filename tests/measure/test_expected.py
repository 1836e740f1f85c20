"""Costs that depend on the targets: expected values, exact, each worked out by hand.

How they are told.
"""

from fractions import Fraction

import pytest

from archcli.measure.flops import count_flops
from archcli.measure.passes import forward_pass, train_pass
from archcli.modules import AdaptiveHead, CrossEntropy, Embedding, Head, HierarchicalHead, SampledHead
from archcli.modules.spec.request import Request
from small import decoder

D, V = 8, 50
ADAPTIVE = AdaptiveHead(cutoffs=(10, 30), cluster_shares=(0.7, 0.25, 0.05), div_value=2)
HEAD, TAILS = 2 * D * (10 + 2), (2 * (D * 4 + 4 * 20), 2 * (D * 2 + 2 * 20))


def head_of(model, phase="train", tokens=100):
    return count_flops(model, Request(phase=phase, seq_len=tokens)).totals["by_component"]["lm_head"]


def test_each_cluster_costs_its_share():
    tails = Fraction(1, 4) * TAILS[0] + Fraction(1, 20) * TAILS[1]
    assert head_of(decoder(head=ADAPTIVE)) == 3 * (100 * HEAD + 100 * tails)


def test_all_words_cost_all_clusters():
    assert head_of(decoder(head=ADAPTIVE), phase="forward") == 100 * (HEAD + sum(TAILS))


def test_a_share_is_the_decimal_it_is_written_as():
    """0.05 of 3 tokens is 3/20, which no binary float is."""
    rows = {row.path: row.inputs[0] for row in train_pass(decoder(head=ADAPTIVE), 1, 3).rows}
    assert rows["lm_head_tail_1_down"] == (Fraction(3, 20), D)
    assert train_pass(decoder(head=ADAPTIVE), 1, 20).flops()[0] == 20 * train_pass(
        decoder(head=ADAPTIVE), 1, 1
    ).flops()[0] + (
        3 * 3 * 2 * 4 * (2 + 2) * (20 * 21 // 2 - 20)  # attention: pairs grow with the square
    )


def test_what_is_no_whole_number_is_rounded_once_at_the_end():
    found = count_flops(decoder(head=ADAPTIVE), Request(phase="train", seq_len=1))
    exact = 3 * (HEAD + Fraction(1, 4) * TAILS[0] + Fraction(1, 20) * TAILS[1])
    assert exact % 1 == Fraction(4, 5)
    assert found.totals["by_component"]["lm_head"] == round(exact)
    whole = sum(count for name, count in found.totals["by_component"].items() if name != "lm_head")
    assert found.totals["matmul_flops"] == round(whole + exact)
    assert all(
        isinstance(value, int) for row in found.rows for key, value in row.items() if key != "component"
    )
    assert all(isinstance(count, int) for count in found.totals["by_class"].values())


@pytest.mark.parametrize(
    ("head", "phase", "expected"),
    [
        (ADAPTIVE, "train", True),
        (ADAPTIVE, "forward", False),
        (HierarchicalHead(n_classes=5), "train", False),
        (Head(), "train", False),
    ],
)
def test_an_expected_value_is_called_one(head, phase, expected):
    report = count_flops(decoder(head=head), Request(phase=phase))
    assert report.totals["expected"] is expected
    assert any("expected values" in note for note in report.notes) is expected
    assert [line["what"].endswith(", expected") for line in report.tables[0].records[:2]] == [expected] * 2


def test_a_class_of_words_costs_as_much_as_any_other():
    assert head_of(decoder(head=HierarchicalHead(n_classes=7))) == 3 * 2 * 100 * D * (
        7 + 8
    )  # 50 words, 8 to a class
    assert head_of(decoder(head=HierarchicalHead(n_classes=7)), "forward") == 2 * 100 * D * (7 + V)


def test_samples_cost_instead_of_words():
    for tied in (False, True):
        model = decoder(head=SampledHead(n_samples=9), embedding=Embedding(tied=tied))
        assert head_of(model) == 3 * 2 * 100 * D * (1 + 9)
        assert head_of(model, "forward") == 2 * 100 * D * V


@pytest.mark.parametrize("z_loss", [None, 1e-4])
def test_a_loss_costs_what_its_formula_says(z_loss):
    """Per logit 3 forward and 3 back; per token log and maximum, the difference and its negative, a mean.

    With z the square and its two factors' gradients, and another mean.
    """
    plain = count_flops(decoder(), Request(phase="train", seq_len=100)).totals
    found = count_flops(decoder(loss=CrossEntropy(z_loss=z_loss)), Request(phase="train", seq_len=100)).totals
    extra = 0 if z_loss is None else 100 * (1 + 2 + 1) + 1 + 2 + 2
    assert found["other_flops"] - plain["other_flops"] == 100 * (V * (3 + 3) + 2 + (1 + 1) + 1) + 1 + extra
    assert found["matmul_flops"] == plain["matmul_flops"]


def test_a_loss_is_training_s_alone():
    assert forward_pass(decoder(loss=CrossEntropy()), 1, 9).flops() == forward_pass(decoder(), 1, 9).flops()


@pytest.mark.parametrize(
    ("shares", "tokens"), [((0.7, 0.25, 0.05), 20), ((1.0, 0.0, 0.0), 1), ((0.125, 0.375, 0.5), 8)]
)
def test_how_many_tokens_make_every_share_whole(shares, tokens):
    head = AdaptiveHead(cutoffs=(10, 30), cluster_shares=shares, div_value=2)
    assert decoder(head=head).token_multiple == tokens


def test_without_shares_any_number_of_tokens_will_do():
    assert decoder().token_multiple == 1
