"""The class of communication: bytes that a rank sends, and their rate by the time under way."""

from dataclasses import replace

import pytest

from archcli.load.source import load_text
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.profile.fold import fold
from archcli.wings.running.profile.reports.joined import RunOfRanks, rank_totals
from archcli.wings.running.profile.reports.one import figures_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.operations import REPLICAS, CollectiveTime, OpTime
from tiny_model import TINY

ROW, SENT = "layers.0.attention_all_reduce", 1000
OF_ROWS = CollectiveTime("all_reduce", 2, 2 * SENT, 0.04, 0.04)
GATHERED = CollectiveTime("all_gather", 3, 5 * SENT, 0.25, 0.01, of_replicas=True)
SCATTERED = CollectiveTime("all_reduce", 1, 3 * SENT, 0.11, 0.02, of_replicas=True)
RECORDED = Recording(
    timed=(
        OpTime(ROW, "forward", "all_reduce", "communication", 0.04, 2),
        OpTime(REPLICAS, "forward", "wait_tensor", "communication", 0.03, 0),
    ),
    ran=(),
    plain_s=(1.0,),
    traced_s=(1.0,),
    framework_s=0.1,
    executed=1,
    counted=1,
    differing=(),
    rejected=0,
    page_faults=0,
    switches_per_s=0.0,
    machine={"device": "cpu"},
    collectives=(GATHERED, OF_ROWS, SCATTERED),
    sent={ROW: 2 * SENT, REPLICAS: 8 * SENT},
)


def folded(recording, depth=0):
    model = shard(load_text(TINY, "tiny.yaml").model, 2)
    counted = count_pass(model, Request("train", 2, 8))
    return fold(model, counted, recording, "fp32", depth)


def test_bytes_are_those_sent_and_the_rate_is_of_the_time_under_way():
    breakdown = folded(RECORDED)
    exchanged = figures_of(breakdown, breakdown.by_class["communication"])
    assert exchanged["bytes"] == 10 * SENT
    assert exchanged["seconds"] == pytest.approx(0.04 + 0.03)
    assert exchanged["gbytes_per_s"] == pytest.approx(10 * SENT / (0.04 + 0.25 + 0.11) / 1e9)
    assert exchanged["byte_share"] == 10 * SENT / breakdown.whole.bytes


def test_operators_have_what_each_sends():
    breakdown = folded(RECORDED)
    row = figures_of(breakdown, breakdown.by_operator["layers.*.attention_all_reduce"])
    replicas = figures_of(breakdown, breakdown.by_operator[REPLICAS])
    assert (row["bytes"], replicas["bytes"]) == (2 * SENT, 8 * SENT)
    assert row["gbytes_per_s"] == pytest.approx(2 * SENT / 0.04 / 1e9)
    assert replicas["gbytes_per_s"] == pytest.approx(8 * SENT / (0.25 + 0.11) / 1e9)


def test_ranks_that_exchange_nothing_send_nothing():
    alone = folded(replace(RECORDED, timed=(), collectives=(), sent={}))
    assert alone.by_class["communication"].bytes == 0
    assert figures_of(alone, alone.by_class["communication"])["gbytes_per_s"] is None


def test_collectives_of_rows_and_of_replicas_are_reported_together():
    apart = {
        "by_class": {},
        "reliable": True,
        "operations_differing": [],
        "launches_lost": [],
        "warnings": [],
    }
    totals = {**apart, "wall_s": 1.0, "matmul_flops": 1, "other_flops": 1}
    documents, collectives = [{"totals": totals}] * 2, [RECORDED.collectives] * 2
    reported = rank_totals(documents, collectives, RunOfRanks(2, 2, "gloo"))["communication"]
    sums = {one["collective"]: (one["calls"], one["bytes"], one["time_s"]) for one in reported}
    assert sums == {
        "all_gather": (3, 5 * SENT, 0.25),
        "all_reduce": (2 + 1, (2 + 3) * SENT, pytest.approx(0.04 + 0.11)),
    }
