"""What a rank sends, by hand: V 50, D 8, 3 layers, 4 query heads and 2 kv heads of width 2, F 12."""

from collections import defaultdict

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.modules import MLP, Group, MixtureOfExperts
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import (
    Collective,
    Fabric,
    GroupOfRanks,
    LinkPace,
    exposed,
    timed,
)
from archcli.wings.serving.predict.communication.exchanges import bubble_share
from archcli.wings.serving.predict.rank.planned import planned_pass
from small import decoder, layer
from table import every_row

B, T, D = 2, 16, 8
LAYER = 2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8
TABLE, NORM = 50 * 8, 8
BF16 = 2
H100 = Fabric("h100-sxm", 450, 50)


def sent(model, plan, stage=0, grad_accum=1, **settings):
    """(times, elements) of what a rank sends in a step, by (purpose, collective, moment)."""
    asked = MemorySettings(**{"phase": "train", "batch_size": B, "seq_len": T} | settings)
    planned = planned_pass(model, asked, plan)
    sums = defaultdict(lambda: (0, 0))
    for it in planned.collectives(plan, planned.stages(plan)[stage], grad_accum):
        key = (it.purpose, it.name, it.stage)
        sums[key] = (sums[key][0] + it.times, sums[key][1] + it.bytes // BF16)
    return dict(sums)


def test_tensor_parallelism():
    """Two all-reduces of B T d a layer forward, two backward; one for the table, one for the head."""
    each = 2 * 3 * B * T * D // 4
    assert sent(decoder(), Plan(tp=4, dp=1)) == {
        ("tensor", "all_reduce", "forward"): (2 * 3 + 1, (2 * 3 + 1) * each),
        ("tensor", "all_reduce", "backward"): (2 * 3 + 1, (2 * 3 + 1) * each),
    }
    # a decoded token of two sequences on four ranks, no backward
    assert sent(decoder(), Plan(tp=4), phase="decode") == {
        ("tensor", "all_reduce", "forward"): (2 * 3 + 1, (2 * 3 + 1) * 2 * 3 * B * D // 4)
    }


def test_sequence_parallelism():
    """The same bytes, as gathers and scatters."""
    each = B * T * D * 3 // 4
    gathers = 2 * 3 + 1
    assert sent(decoder(), Plan(tp=4, sp=True)) == {
        ("tensor", name, moment): (gathers, gathers * each)
        for name in ("all_gather", "reduce_scatter")
        for moment in ("forward", "backward")
    }


def test_micro_batches_and_accumulation():
    """Activations are sent for each micro batch, gradients of DDP once a step."""
    plan = Plan(tp=2, dp=3)
    once, four = sent(decoder(), plan), sent(decoder(), plan, grad_accum=4)
    key = ("tensor", "all_reduce", "forward")
    assert four[key] == tuple(4 * n for n in once[key])
    gradients = ("gradients", "all_reduce", "backward")
    assert four[gradients] == once[gradients]


def test_stages_of_zero():
    """2 (n - 1) / n of the gradients; with ZeRO 1 and 2 half as a scatter, half as a gather of weights."""
    whole = 3 * LAYER + 2 * TABLE + NORM
    part = -(-whole // 4) * 3
    scatter, gather = ("gradients", "reduce_scatter", "backward"), ("weights", "all_gather", "step")
    assert sent(decoder(), Plan(dp=4)) == {("gradients", "all_reduce", "backward"): (1, 2 * whole * 3 // 4)}
    assert sent(decoder(), Plan(dp=4, zero=1), grad_accum=5) == {scatter: (1, part), gather: (1, part)}
    assert sent(decoder(), Plan(dp=4, zero=2), grad_accum=5) == {scatter: (5, 5 * part), gather: (1, part)}
    # of 8 rows each of 4 ranks has 2, of 50 rows 13
    layers, root = 3 * LAYER * 3 // 4, (2 * 13 * 8 + 2) * 3
    assert sent(decoder(), Plan(dp=4, zero=3)) == {
        ("weights", "all_gather", "forward"): (3 + 1, layers + root),
        ("weights", "all_gather", "backward"): (3, layers),
        ("gradients", "reduce_scatter", "backward"): (3 + 1, layers + root),
    }


def test_buckets_of_ddp():
    """494 million parameters of bf16 in buckets of 25 MiB."""
    model = load("qwen2.5-0.5b").model
    times, elements = sent(model, Plan(dp=2))["gradients", "all_reduce", "backward"]
    assert (times, elements) == (-(-494_032_768 * BF16 // (25 * 2**20)), 494_032_768)


def test_experts():
    """N k d (e - 1) / e each way, forward and backward, in each of three layers."""
    experts = MixtureOfExperts(n_experts=4, top_k=2, expert=MLP(d_ff=12))
    model = decoder(Group(n_layers=3, layer=layer(ffn=experts)))
    each = B * T * 2 * D * 3 // 4
    found = sent(model, Plan(dp=4, ep=4))
    for moment in ("forward", "backward"):
        assert found["experts", "all_to_all", moment] == (2 * 3, 2 * 3 * each)
    # of experts four ranks hold one each, which no other rank has gradients of
    rest = 3 * (2 * 8 * 8 + 2 * 8 * 4 + 2 * 8 + 4 * 8) + 2 * TABLE + NORM
    assert found["gradients", "all_reduce", "backward"] == (1, 2 * rest * 3 // 4)


def test_stages_send_hidden_states():
    """B T d for each of four micro batches: the first onward, the last back, the middle both."""
    plan = Plan(pp=3, micro_batches=4)
    onward, back = ("stages", "send", "forward"), ("stages", "send", "backward")
    each = (4, 4 * B * T * D)
    assert [sent(decoder(), plan, stage) for stage in range(3)] == [
        {onward: each},
        {onward: each, back: each},
        {back: each},
    ]
    # with sequence parallelism a rank's tokens alone
    found = sent(decoder(), Plan(pp=3, micro_batches=4, tp=2, sp=True), 0)
    assert found[onward] == (4, 4 * B * T * D // 2)


def test_a_tied_table_is_summed_over_both_ends():
    plan = Plan(pp=3, micro_batches=2)
    ends = [
        sent(decoder(tied=True), plan, stage).get(("gradients", "all_reduce", "step")) for stage in (0, 1, 2)
    ]
    assert ends == [(1, TABLE), None, (1, TABLE)]


def test_rows_of_a_stage():
    """Of three layers the first of two stages has two and the table, the last one and the head."""
    plan = Plan(tp=2, pp=2, micro_batches=2)
    key = ("tensor", "all_reduce", "forward")
    assert [sent(decoder(), plan, stage)[key][0] for stage in (0, 1)] == [2 * (2 * 2 + 1), 2 * 2 * 1]


def test_bubble():
    assert bubble_share(Plan(pp=8, micro_batches=32)) == 7 / 32
    assert bubble_share(Plan(pp=8, micro_batches=32, schedule="interleaved", virtual_stages=4)) == 7 / 128
    assert bubble_share(Plan(dp=4)) == 0


def test_keys_and_values_around_the_ring():
    """Of T / 4 tokens two kv heads of width 2, three times; back as well, and their gradients four times."""
    found = sent(decoder(), Plan(cp=4))
    keys_and_values = B * (T // 4) * 2 * (2 + 2)
    assert found["context", "send", "forward"] == (3 * 3, 3 * 3 * keys_and_values)
    assert found["context", "send", "backward"] == (3 * 7, 3 * 7 * keys_and_values)
    assert sent(decoder(), Plan(cp=4), recompute="layer")["context", "send", "forward"][0] == 2 * 3 * 3


def one(name, ranks, stride=1, size=1e9, times=1, cover=""):
    return Collective(name, "tensor", GroupOfRanks(ranks, stride), size, times, cover=cover)


@every_row(
    ("collective", "link", "gb_s"),
    [
        (one("all_reduce", 8), "link", 450),
        # half of 1/8 of a message leaves each of 2 nodes, by the rings' count 15/16: wider than the link
        (one("all_reduce", 16), "network", 450),
        (one("all_reduce", 64), "network", 8 * 50 * (63 / 64) / (7 / 8)),
        (one("all_gather", 16, stride=8), "network", 50),
        (one("all_gather", 4, stride=2), "link", 450),
        (one("all_reduce", 8, stride=2), "network", 4 * 50 * (7 / 8) / (1 / 2)),
        (one("reduce_scatter", 8, stride=2), "network", 200),  # rings, over 4 interfaces
        (one("all_to_all", 16), "network", 50 * 15 / 8),  # 8 of the 15 others are in the other node
        # of 8 copies to 2 nodes at random both get one but for 1 token in 128
        (one("all_to_all", 16)._replace(visits=8), "network", 50 * 15 / 8 * 8 / (2 * (1 - 1 / 2**8))),
        (one("send", 2, stride=8), "network", 50),
        (one("send", 16), "network", 50),
    ],
)
def test_routes(collective, link, gb_s):
    (found,) = timed([collective], H100)
    assert (found.link, found.time_s) == (link, pytest.approx(1 / gb_s))


def test_unknown_rates_take_no_time():
    """Cards whose link alone is known: 16 in two machines send within each of them."""
    cards = Fabric("l40s", 32)
    assert (cards.unknown(16), cards.unknown(8), Fabric("m4-max").unknown(2)) == ("network", None, "link")
    (found,) = timed([one("all_reduce", 16)], cards.assumed())
    assert (found.link, found.time_s) == ("network", pytest.approx(1 / 32))
    (found,) = timed([one("send", 2, stride=8)], cards.assumed())
    assert found.time_s == 0


def test_a_wide_network_is_no_faster_than_the_link():
    (found,) = timed([one("all_reduce", 16)], Fabric("a", 450, 100))
    assert found.time_s == 1 / 450


def test_a_rack_of_72():
    (found,) = timed([one("all_reduce", 64)], Fabric("gb200", 900, 100, devices_per_node=72))
    assert (found.link, found.time_s) == ("link", 1 / 900)


def test_latency_and_share():
    """Of 3 messages of 1 GB in all: 3 x 30 us + 1 GB / (0.8 x 450 GB/s)."""
    (found,) = timed([one("all_reduce", 8, times=3)], H100, LinkPace(30e-6, 0.8))
    assert found.time_s == pytest.approx(3 * 30e-6 + 1 / 360)


def test_unknown_links():
    with pytest.raises(ArchError) as caught:
        timed([one("all_reduce", 16)], Fabric("l40s", 32))
    assert caught.value.problems[0].what == "l40s states no rate beyond 8 devices: network_gb_s"
    with pytest.raises(ArchError) as caught:
        timed([one("all_reduce", 2)], Fabric("m4-max"))
    assert caught.value.problems[0].what == "m4-max states no rate to its neighbours: link_gb_s"


def test_what_is_exposed():
    """6 s behind a backward of 4 s: 2 s at least, shared as 4 to 2; what is waited for is all exposed."""
    asked = [one("all_gather", 8, size=4 * 450e9, cover="backward"), one("all_reduce", 8, size=450e9)]
    asked.append(one("reduce_scatter", 8, size=2 * 450e9, cover="backward"))
    found = exposed(timed(asked, H100), {"backward": 4.0, "forward": 9.0})
    assert [(it.least_s, it.most_s) for it in found] == [
        (pytest.approx(4 / 3), 4),
        (1, 1),
        (pytest.approx(2 / 3), 2),
    ]
    hidden = exposed(timed(asked, H100), {"backward": 7.0})
    assert [it.least_s for it in hidden] == [0, 1, 0]
    assert found[0].record() == {
        "collective": "all_gather",
        "purpose": "tensor",
        "stage": "forward",
        "ranks": 8,
        "times": 1.0,
        "bytes": 4 * 450 * 10**9,
        "link": "link",
        "time_s": 4.0,
        "exposed_s": pytest.approx(4 / 3),
        "exposed_most_s": 4.0,
    }


def test_groups_of_ranks_exchange_with_their_like():
    """Two groups of two ranks, each with 2 of 4 sequences: every other rank gathers, and scatters sums.

    Within a group heads are summed, the words of the table, and the sums of networks that were scattered.
    """
    asked, plan = MemorySettings("decode", 4, T), Plan(tp=4, dp_attention=2)
    planned = planned_pass(decoder(), asked, plan)
    found = planned.collectives(plan, planned.stages(plan)[0])
    each = 2 * D * BF16  # of 2 sequences, to one other rank
    assert {(it.name, it.group, it.times, it.bytes) for it in found} == {
        ("all_reduce", GroupOfRanks(2), 2 * 3 + 1, (2 * 3 + 1) * each),
        ("all_gather", GroupOfRanks(2, 2), 3, 3 * each),
        ("reduce_scatter", GroupOfRanks(2, 2), 3, 3 * each),
    }


def test_ranks_with_the_same_tokens_send_none_to_experts():
    experts = MixtureOfExperts(n_experts=4, top_k=2, expert=MLP(d_ff=12))
    model = decoder(Group(n_layers=3, layer=layer(ffn=experts)))
    of_whole = sent(model, Plan(tp=4), phase="decode")
    assert set(of_whole) == {("tensor", "all_reduce", "forward")}
    for ep in (2, 4):
        assert sent(model, Plan(tp=4, ep=ep), phase="decode") == of_whole
