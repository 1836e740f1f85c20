"""`archcli verify --memory`: figures of `archcli memory` beside what torch keeps and holds."""

import json

import pytest
import torch

from archcli.ops import Activate

torch.set_num_threads(1)
SMALL = ("gpt2", "--memory", "--set", "n_layers=2", "--set", "vocab_size=100", "-s", "8")


@pytest.mark.long
def test_agreement_ends_with_0(cli):
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "all 7 comparisons agree" in done.out


@pytest.mark.long
def test_what_is_compared(cli):
    report = json.loads(cli("verify", *SMALL, "-b", "2", "--json").out)
    assert report["inputs"]["memory"] is True
    assert (report["inputs"]["dtype"], report["inputs"]["attention"]) == ("bf16", "sdpa")
    peaks = [row["what"] for row in report["rows"] if row["witness"].startswith("live")]
    assert peaks == [
        f"peak of a {what} beyond the weights, bytes" for what in ("training step", "prefill", "decode")
    ]
    kept = report["rows"][0]
    asked = json.loads(
        cli(
            "memory", "gpt2", "--set", "n_layers=2", "--set", "vocab_size=100", "-s", "8", "-b", "2", "--json"
        ).out
    )
    assert kept["ours"] == kept["theirs"] == asked["totals"]["kept_bytes"]


@pytest.mark.long
def test_a_row_that_differs_ends_with_1_and_is_named(cli, monkeypatch):
    monkeypatch.setattr(Activate, "kept", lambda op, call, x: ())
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (1, "")
    assert any("✗" in line and "layers.*.ffn.up_proj" in line for line in done.out.splitlines())


@pytest.mark.long
def test_a_peak_off_by_more_than_the_bound_differs(cli, monkeypatch):
    monkeypatch.setattr("archcli.wings.running.runtime.verify.memory.TRAINING_BOUND", -1)
    done = cli("verify", *SMALL)
    assert done.code == 1
    assert any("✗" in line and "training step" in line for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attention", "eager"), "--attention is of --memory"),
        (("--memory", "--weights", "somewhere"), "two comparisons"),
        (("--memory", "--dtype", "keep"), "--dtype keep is of --weights"),
        (("--memory", "--mla", "naive"), "--memory is of the forms that each phase runs"),
        (("--memory", "-s", "100k"), "100,000 tokens are too many"),
    ],
)
def test_options_of_other_comparisons_are_refused(cli, options, message):
    done = cli("verify", "gpt2", *options)
    assert done.code == 2
    assert message in done.err


@pytest.mark.long
def test_a_model_without_a_loss_has_no_peak_of_training(cli):
    done = cli("verify", "bert-base-uncased", "--memory", "--set", "n_layers=1", "-s", "8")
    assert done.code == 0
    assert "The model ends without a loss" in done.out
    assert "training step beyond" not in done.out
