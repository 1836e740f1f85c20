"""Published training runs: what each states of its model is what we count, and its devices are known."""

import csv
from collections import Counter

import pytest

from archcli import count_params, load
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from llm_foundry import RUNS, SHAPES, table
from measure.memory.published.regenerate import KEPT, write
from table import every_row

SHORTEST = {(run.model, run.seq_len): run for run in RUNS}


@pytest.mark.long
@every_row("run", SHORTEST.values(), ids=str)
def test_the_parameters_of_a_run_are_those_we_count(run):
    assert count_params(run.mapping).totals["params"] == run.params


def test_runs_of_the_same_model_and_length_state_the_same_parameters():
    assert all(run.params == SHORTEST[run.model, run.seq_len].params for run in RUNS)


def test_every_run_names_a_known_device():
    """79.1 GiB of an H100, 39.4 of an A100 of 40 GB; of one of 80 what deviceQuery says."""
    assert {run.device: run.budget.memory_bytes for run in RUNS} == {
        "h100_80gb": 84_932_978_278,
        "a100_80gb": 84_987_740_160,
        "a100_40gb": 42_305_427_865,
    }
    assert all(run.budget.n_devices == run.n_devices for run in RUNS)


def test_the_runs_are_those_that_were_published():
    assert len(RUNS) == len({run.line for run in RUNS}) == 136
    assert {run.model for run in RUNS} == set(SHAPES)
    assert Counter(run.zero for run in RUNS) == {3: 135, 2: 1}
    assert Counter(run.checkpointing for run in RUNS) == {False: 89, True: 47}
    assert {run.n_devices for run in RUNS} <= {2**power for power in range(3, 10)}


def test_a_run_as_it_stands_in_the_table():
    """llm-foundry: mpt-70b on 512 H100, micro batch 8 of 2,048 tokens, activations recomputed."""
    run = next(run for run in RUNS if run.line == 75)
    assert (run.model, run.device, run.n_devices) == ("mpt-70b", "h100_80gb", 512)
    assert (run.seq_len, run.micro_batch, run.zero, run.checkpointing) == (2048, 8, 3, True)
    d, layers, vocab = 8192, 80, 50368
    linear = 12 * d * d + (3 * d + d + 4 * d + d)  # weights and biases of q, k, v, o, up and down
    assert run.params == layers * (linear + 4 * d) + (vocab + 2048) * d + 2 * d


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_script_writes_the_tables_that_stand_here(path, tmp_path, monkeypatch):
    copy = tmp_path / path.name
    monkeypatch.setitem(KEPT, copy, KEPT[path])
    wider = [{**row, "tokens_per_s": "1"} for row in table(path.stem)]
    write(copy, wider)
    assert copy.read_text() == path.read_text()
    assert tuple(next(csv.reader(copy.read_text().splitlines()))) == KEPT[path]


def needed_share(run, loss):
    """Bytes that a device must have for the run as we predict it, over those that it has."""
    recompute = "layer" if run.checkpointing else "none"
    settings = MemorySettings(
        "train", run.micro_batch, run.seq_len, optimizer="adamw-mixed", recompute=recompute, loss=loss
    )
    question = MemoryQuestion(load(run.mapping), settings, Plan(dp=run.n_devices, zero=3))
    return question.answer().needed_bytes / run.budget.memory_bytes


@pytest.mark.sample(7)
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_no_run_is_predicted_beyond_its_device(run):
    """Each ran; with mixed precision, a fused loss and full sharding over all devices."""
    assert 0.02 < needed_share(run, "fused") <= 1


def test_with_all_logits_at_once_some_would_not_fit():
    """Of 125M and 350M parameters the logits are the most: so the prediction can fail."""
    fullest = [run for run in RUNS if run.line in {295, 302, 288}]
    assert len(fullest) == 3
    assert all(needed_share(run, "plain") > 1 for run in fullest)
