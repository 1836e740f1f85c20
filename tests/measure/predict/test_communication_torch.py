"""Collectives are those that torch runs: how often, and how many elements a rank sends."""

from collections import Counter

import pytest

from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.rank.planned import planned_pass
from collectives import sent_by_fsdp, sent_by_tensor_parallelism
from small import decoder

B, T = 2, 8
FP32 = 4


def counted(model, plan, recompute="none"):
    """(times, elements sent) by collective."""
    settings = MemorySettings("train", B, T, dtype="fp32", recompute=recompute)
    planned = planned_pass(model, settings, plan)
    times, sent = Counter(), Counter()
    for collective in planned.collectives(plan, planned.stages(plan)[0]):
        times[collective.name] += collective.times
        sent[collective.name] += collective.bytes // FP32
    return {name: (times[name], sent[name]) for name in times}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("ranks", [2, 3])
def test_fsdp(ranks, tied):
    """Of 3 ranks the shards are padded: 8 rows are three times 3."""
    model = decoder(tied=tied)
    assert counted(model, Plan(dp=ranks, zero=3)) == sent_by_fsdp(model, ranks, B, T)


@pytest.mark.long
@pytest.mark.parametrize("recompute", ["none", "layer", "layers.*.ffn"])
def test_tensor_parallelism(recompute):
    """What is recomputed sends again, but for the sum at its end, which nothing keeps."""
    model = decoder()
    theirs = sent_by_tensor_parallelism(model, 2, B, T, recompute)
    assert counted(model, Plan(tp=2), recompute) == theirs
    repeated = {"none": 0, "layer": 3, "layers.*.ffn": 0}[recompute]
    assert theirs == {"all_reduce": (14 + repeated, (14 + repeated) * 2 * B * T * 8 * 1 // 2)}
