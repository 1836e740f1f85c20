"""Queues against vidur's schedulers on the same step times: tests/oracle/queues/README.md."""

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from archcli.wings.serving.queueing.outcome import Replicas
from archcli.wings.serving.queueing.requests import LoadRequest
from archcli.wings.serving.queueing.scheduler import CacheRoom, Scheduler

QUEUES = Path(__file__).parents[2] / "oracle" / "queues"
PER_CENT = 0.05
KINDS = {"first": "ttft", "per_token": "tpot", "end_to_end": "e2e"}


@dataclass(frozen=True)
class Steps:
    """vidur's: seconds of a step, of each of its tokens, and of each token before them.

    A token that is decoded counts itself among those before it.
    """

    fixed: float
    of_token: float
    of_context: float

    def tokens_s(self, sequences, context):
        return self.fixed + sequences * (self.of_token + self.of_context * (context + 1))

    def mixed_s(self, sequences, context, pieces):
        of_pieces = sum(it.tokens * self.of_token + it.past * self.of_context for it in pieces)
        return self.tokens_s(sequences, context) + of_pieces


def runs():
    """(trace, scheduler) of each run, and its figures."""
    with (QUEUES / "figures.csv").open() as file:
        return {(row["trace"], row["scheduler"]): row for row in csv.DictReader(file)}


APART = {("once", "vllm"), ("waves-70", "vllm"), ("tight-90", "vllm"), ("tight-90", "sarathi")}
"""Runs in which rules decide that no engine of today has.

vLLM of 2023 pads prompts to the longest of a pass, which matters where many wait; in `tight-90` vidur lets a
sequence into a pass only while a block is free, also where it needs none.
"""
RUNS = {run: row for run, row in runs().items() if run not in APART}


def simulated(row):
    """The outcome of a run's requests."""
    with (QUEUES / f"{row['trace']}.csv").open() as file:
        requests = [
            LoadRequest(float(it["arrival"]), int(it["prompt"]), int(it["new"]))
            for it in csv.DictReader(file)
        ]
    alone = row["scheduler"] == "vllm"
    scheduler = Scheduler(
        pass_tokens=int(row["batch_tokens" if alone else "chunk"]),
        max_sequences=int(row["sequences"]),
        mixes=not alone,
        cuts=not alone,
        watermark=float(row["watermark"]),
    )
    room = CacheRoom(int(row["blocks"]), int(row["block"]))
    return Replicas(scheduler, room).serve(requests, Steps(*map(float, row["step"].split())))


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_queues_and_percentiles_are_those_of_vidur(run):
    """Means and percentiles of times, requests that wait, and blocks, within five percent."""
    row = RUNS[run]
    outcome = simulated(row)
    for name, theirs in KINDS.items():
        for part in ("mean", "p50", "p90", "p99"):
            expected = float(row[f"{theirs}_{part}"])
            assert getattr(getattr(outcome, name), part) == pytest.approx(expected, rel=PER_CENT), (
                name,
                part,
            )
    assert outcome.waiting == pytest.approx(float(row["waiting_mean"]), rel=PER_CENT, abs=0.05)
    assert outcome.pages * int(row["blocks"]) == pytest.approx(float(row["blocks_mean"]), rel=PER_CENT)
