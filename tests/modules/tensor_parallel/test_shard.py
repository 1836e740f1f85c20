"""One rank's share, counted by hand: V 50, D 8, 3 layers, 4 query heads and 2 kv heads of width 2, F 12."""

from pathlib import Path

import numpy as np
import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.passes import cache_pass, decode_pass, forward_pass, prefill_pass, train_pass
from archcli.modules import (
    MLP,
    Embedding,
    Group,
    LayerNorm,
    Learned,
    MixtureOfExperts,
    QKNorm,
    Router,
    SharedSinkExperts,
)
from archcli.modules.adapters.lora import LoRA
from archcli.modules.spec.base import substitute
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.ops import AllGather, AllReduce, AllToAll, ReduceScatter, SumGradient
from archcli.ops.communicate import Communication
from archcli.wings.shapes.symbolic.formula import formula
from small import NORM, attention, decoder, layer

PRESETS = Path(__file__).parents[3] / "presets"
B, T, D = 2, 6, 8
NORMS = (2 * 3 + 1) * D


def sent(rows, cls=Communication):
    """Elements that one rank sends forward over a ring."""
    return sum(row.times * row.op.sent(*row.inputs) for row in rows if isinstance(row.op, cls))


def messages(rows, cls):
    return sum(row.times for row in rows if isinstance(row.op, cls))


def problem(model, **plan):
    with pytest.raises(ArchError) as caught:
        shard(model, **plan)
    first = caught.value.problems[0]
    return first.path, first.what, first.hint


def test_parameters_of_two_ranks():
    matrices = 3 * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12) + 2 * 50 * 8
    assert forward_pass(decoder(), 1, 1).params() == matrices + NORMS
    for rank in (0, 1):
        assert forward_pass(shard(decoder(), 2, rank=rank), 1, 1).params() == matrices // 2 + NORMS


def test_uneven_words():
    """Four ranks of 50 words have 13, 13, 13 and 11; two kv heads are held by two ranks each."""
    layers = 3 * ((2 * 8 * 8 + 3 * 8 * 12) // 4 + 2 * 8 * 2)
    of_ranks = [forward_pass(shard(decoder(), 4, rank=rank), 1, 1).params() for rank in range(4)]
    assert of_ranks == [layers + NORMS + 2 * words * 8 for words in (13, 13, 13, 11)]


def test_products_of_all_ranks_are_those_of_the_model():
    for count in (forward_pass, train_pass, prefill_pass):
        assert 2 * count(shard(decoder(), 2), B, T).flops()[0] == count(decoder(), B, T).flops()[0]
    assert 2 * decode_pass(shard(decoder(), 2), B, 9).flops()[0] == decode_pass(decoder(), B, 9).flops()[0]


def test_cache_of_a_rank():
    """K (d + e) = 2 * (2 + 2) per token and layer; a rank of two has half, a rank of four no less."""
    for tp, kv_heads in ((1, 2), (2, 1), (4, 1)):
        held = cache_pass(shard(decoder(), tp), Request("prefill", B, T)).cached()
        assert held == 3 * B * T * kv_heads * (2 + 2)


def test_messages():
    """Behind the table, and behind mixer and network of each layer; their gradients in front of them."""
    rows = train_pass(shard(decoder(), 2), B, T).rows
    assert messages(rows, AllReduce) == 1 + 2 * 3
    assert messages(rows, SumGradient) == 2 * 3 + 1  # and in front of the head
    assert sent(rows) == (1 + 2 * 3) * 2 * (B * T * D) // 2
    gradient = sum(
        back.read for row in rows if isinstance(row.op, SumGradient) for back in row.parts[0].backward
    )
    assert gradient == (2 + 1) * B * T * D  # a row for the layers' mixers, one for their networks, the head


def test_sequence_parallelism():
    """Norms and residuals have T / 2 tokens; what is sent is the same."""
    split, tokens = (
        forward_pass(shard(decoder(), 2), B, T).rows,
        forward_pass(shard(decoder(), 2, sp=True), B, T).rows,
    )
    assert messages(tokens, ReduceScatter) == 1 + 2 * 3
    assert messages(tokens, AllGather) == 2 * 3 + 1
    assert messages(tokens, AllReduce) == 0
    # an all-reduce is a reduce-scatter and an all-gather
    assert sent(tokens) == sent(split)
    shapes = {row.path: row.outputs[0] for row in tokens}
    assert shapes["layers.0.attention_norm"] == (B, T // 2, D)
    assert shapes["layers.0.attention.q_proj"] == (B, T, 4)
    assert shapes["layers.0.ffn_residual"] == (B, T // 2, D)
    assert shapes["lm_head"] == (B, T, 25)
    assert sum(row.params for row in tokens) == sum(row.params for row in split)


def test_sequence_parallelism_sends_no_more():
    """In training too: each all-reduce, forward or backward, is a reduce-scatter and an all-gather."""
    split, tokens = (train_pass(shard(decoder(), 2, sp=sp), B, T).sent_elements() for sp in (False, True))
    assert split == tokens == 2 * (1 + 2 * 3) * 2 * (B * T * D) // 2


def test_last_token_under_sequence_parallelism():
    rows = prefill_pass(shard(decoder(), 2, sp=True), B, T).rows
    assert next(row for row in rows if row.path == "lm_head").outputs == ((B, 1, 25),)


def test_positions_are_added_to_all_tokens():
    model = decoder(embedding=Embedding(position=Learned(max_seq_len=16)))
    shapes = {row.path: row.outputs[0] for row in forward_pass(shard(model, 2, sp=True), B, T).rows}
    assert shapes["embedding.positions_add"] == (B, T, D)
    assert shapes["embedding_part"] == (B, T // 2, D)


def test_biases():
    """Of what is split by outputs a rank has its part, of what is split by inputs all."""
    model = decoder(Group(n_layers=1, layer=layer(attention(bias=True), MLP(d_ff=12, bias=True))))
    weights = {row.path: row.weights for row in forward_pass(shard(model, 2), B, T).rows}
    assert weights["layers.0.attention.q_proj"] == {"weight": (4, 8), "bias": (4,)}
    assert weights["layers.0.attention.o_proj"] == {"weight": (8, 4), "bias": (8,)}
    assert weights["layers.0.ffn.down_proj"] == {"weight": (8, 6), "bias": (8,)}


def test_a_norm_of_all_heads_gathers_them():
    norm = QKNorm(per="full", norm=LayerNorm())
    model = decoder(Group(n_layers=1, layer=layer(attention(qk_norm=norm))))
    rows = {row.path: row for row in forward_pass(shard(model, 4), B, T).rows}
    assert rows["layers.0.attention.q_norm"].weights["weight"] == (8,)
    assert rows["layers.0.attention.k_norm"].weights["weight"] == (4,)
    assert rows["layers.0.attention.q_norm_gather"].inputs == ((B, T, 2),)
    assert rows["layers.0.attention.k_norm_gather"].op.ranks == 2


def test_a_gathered_norm_of_all_heads_is_counted_apart_from_other_norms():
    """Each rank normalizes all channels of queries and keys, as the whole model does."""
    norm = QKNorm(per="full", norm=LayerNorm())
    model = decoder(Group(n_layers=1, layer=layer(attention(qk_norm=norm))))
    for tp in (1, 2, 4):
        rows = count_flops(shard(model, tp), Request("forward", B, T)).rows
        flops = {row["component"]: row["other_flops"] for row in rows}
        # keys of 2 heads are normalized by the two ranks of four that hold the same one, too
        assert (flops["qk_norm"], flops["norms"]) == (7 * B * T * (4 + 2) * 2, 4 * B * T * 3 * D)


def moe(n_experts=4, **fields):
    experts = MixtureOfExperts(n_experts=n_experts, top_k=2, expert=MLP(d_ff=12), **fields)
    return decoder(Group(n_layers=1, layer=layer(ffn=experts)))


def test_experts_by_channel():
    """One sum for all experts and what they share; their gradients where tokens and weights come in."""
    model = moe(shared=MLP(d_ff=6), shared_gate=True)
    rows = {row.path: row for row in train_pass(shard(model, 2), B, T).rows}
    assert rows["layers.0.ffn.experts.up_proj"].weights == {"weight": (6, 8)}
    assert rows["layers.0.ffn.shared.up_proj"].weights == {"weight": (3, 8)}
    assert rows["layers.0.ffn.router"].weights == {"weight": (4, 8)}
    reduced = [path for path, row in rows.items() if isinstance(row.op, AllReduce)]
    assert reduced == [
        "embedding.tokens_all_reduce",
        "layers.0.attention_all_reduce",
        "layers.0.ffn_all_reduce",
    ]
    copied = [path.removeprefix("layers.0.") for path, row in rows.items() if isinstance(row.op, SumGradient)]
    assert copied == [
        "attention_copy",
        "ffn.dispatch_copy",
        "ffn.combine_copy",
        "ffn.shared_copy",
        "ffn.shared_gated_copy",
        "lm_head_copy",
    ]


def test_a_norm_behind_experts_follows_their_sum():
    rows = [row.path for row in forward_pass(shard(moe(out_norm=NORM, shared=MLP(d_ff=6)), 2), B, T).rows]
    in_order = [
        "ffn.combine",
        "ffn.combine_all_reduce",
        "ffn.shared_all_reduce",
        "ffn.add_shared",
        "ffn.out_norm",
    ]
    assert [
        path.removeprefix("layers.0.") for path in rows if path.removeprefix("layers.0.") in in_order
    ] == in_order
    assert "layers.0.ffn_all_reduce" not in rows


def test_whole_experts():
    """Two ranks have two of four experts; each sends its tokens twice, and gets as many."""
    counted = forward_pass(shard(moe(), ep=2), B, T)
    rows = {row.path: row for row in counted.rows}
    assert rows["layers.0.ffn.experts.up_proj"].params == 2 * 12 * 8
    assert rows["layers.0.ffn.router"].params == 4 * 8
    assert rows["layers.0.ffn.dispatch_all_to_all"].outputs == ((B * T * 2, 8),)
    assert sent(counted.rows, AllToAll) == 2 * (B * T * 2 * 8) // 2
    assert counted.flops() == forward_pass(moe(), B, T).flops()
    assert counted.expected


def test_whole_experts_beside_zero_experts():
    """Of 4 + 2 experts, of which two ranks have two each, four compute: 4 of 6 choices are sent, and back."""
    counted = forward_pass(shard(moe(router=Router(zero_experts=2)), ep=2), B, T)
    rows = {row.path: row for row in counted.rows}
    computed = B * T * 2 * 4 // 6
    assert rows["layers.0.ffn.dispatch_all_to_all"].outputs == ((computed, 8),)
    assert rows["layers.0.ffn.combine_all_to_all"].outputs == ((computed, 8),)
    assert sent(counted.rows, AllToAll) == 2 * (computed * 8) // 2


def test_whole_experts_of_ranks_that_share_matrices():
    """Of two ranks with equal tokens each sends half of them."""
    counted = forward_pass(shard(moe(), 2, ep=4), B, T)
    rows = {row.path: row for row in counted.rows}
    assert rows["layers.0.ffn.experts.up_proj"].params == 12 * 8
    assert rows["layers.0.ffn.experts.up_proj"].inputs == ((B * T * 2 // 2, 8),)
    assert rows["layers.0.ffn_all_reduce"].inputs == ((B, T, 8),)


def test_experts_of_ranks_with_the_same_tokens():
    """Of four ranks two share each expert: it has 6 of 12 channels, of half of the 4 experts, and no sends.

    Each rank computes for its own experts, half of the copies; the sum over ranks adds up the rest.
    """
    counted = forward_pass(shard(moe(), 4, ep=2), B, T)
    rows = {row.path: row for row in counted.rows}
    up = rows["layers.0.ffn.experts.up_proj"]
    assert (up.params, up.inputs) == (2 * 6 * 8, ((B * T * 2 // 2, 8),))
    assert rows["layers.0.ffn_all_reduce"].inputs == ((B, T, 8),)
    assert not [row for row in counted.rows if row.op.collective == "all_to_all"]
    # as many FLOPs as where every expert is divided among all four
    assert counted.flops()[0] == forward_pass(shard(moe(), 4), B, T).flops()[0]


def test_groups_with_sequences_of_their_own():
    """Two groups of two ranks: a group's attention is that of tp 2, of its own B sequences.

    The network reads the 2 B sequences of both, each of four ranks with a fourth of its channels; the sums
    are scattered to the groups, and added up among the two ranks of one.
    """
    counted = forward_pass(shard(decoder(), 2, groups=2), B, T)
    rows = {row.path: row for row in counted.rows}
    of_two = {row.path: row for row in forward_pass(shard(decoder(), 2), B, T).rows}
    for path in ("layers.0.attention.q_proj", "layers.0.attention.o_proj", "lm_head"):
        assert (rows[path].weights, rows[path].inputs) == (of_two[path].weights, of_two[path].inputs)
    assert rows["layers.0.ffn_gather"].outputs == ((2 * B, T, 8),)
    assert rows["layers.0.ffn.up_proj"].weights == {"weight": (12 // 4, 8)}
    assert rows["layers.0.ffn.up_proj"].inputs == ((2 * B, T, 8),)
    assert rows["layers.0.ffn_reduce_scatter"].outputs == ((B, T, 8),)
    assert rows["layers.0.ffn_all_reduce"].op.ranks == 2


@pytest.mark.parametrize("ep", [1, 2, 4])
def test_experts_of_groups(ep):
    """Four ranks share four experts of 12 channels: 1 / 4 of them in whatever form, the tokens of all."""
    counted = forward_pass(shard(moe(), 1, ep=ep, groups=4), B, T)
    rows = {row.path: row for row in counted.rows}
    assert rows["layers.0.ffn.experts.up_proj"].params == 4 * 12 * 8 // 4
    assert rows["layers.0.ffn.experts.up_proj"].inputs == ((4 * B * T * 2 // ep, 8),)
    assert rows["layers.0.attention.q_proj"].weights == {"weight": (8, 8)}
    assert {row.op.collective for row in counted.rows if row.op.collective} == {
        "all_gather",
        "reduce_scatter",
    }


def test_adapters():
    """Of q's A is whole and B split, of o's A is split and B whole."""
    model = decoder(lora=LoRA(rank=2, targets=("q", "o")))
    weights = {row.path: row.weights for row in forward_pass(shard(model, 2), B, T).rows}
    shapes = [weights[f"layers.0.attention.{op}_proj.lora_{side}"]["weight"] for op in "qo" for side in "AB"]
    assert shapes == [(2, 8), (4, 2), (2, 4), (8, 2)]


def test_formulas_and_candidates_are_split_alike():
    widths = np.array([12, 24, 36])
    path = "groups.0.layer.ffn.d_ff"
    counted = forward_pass(shard(substitute(decoder(), {path: widths}), 2), 1, 1).params()
    each = [forward_pass(shard(substitute(decoder(), {path: int(w)}), 2), 1, 1).params() for w in widths]
    assert list(counted) == each


def test_closed_form():
    """Sizes of a rank by their names; `formula` checks each against the counted integer."""
    closed = formula(shard(decoder(), 2)).params
    assert str(closed) == str(formula(decoder()).params)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (
            {"tp": 3},
            ("groups.0.layer.attention.n_heads", "tp 3 does not divide n_heads 4", "2 or 4 would do"),
        ),
        ({"tp": 8}, ("groups.0.layer.ffn.d_ff", "tp 8 does not divide d_ff 12", "2 or 4 would do")),
        ({"ep": 2}, ("ep", "ep 2 splits experts, and the model has none", "leave ep out")),
        (
            {"sp": True},
            ("sp", "sp shares tokens among the ranks of tp, and tp is 1", "state tp, or leave sp out"),
        ),
    ],
)
def test_impossible_plans(plan, told):
    assert problem(decoder(), **plan) == told


def test_impossible_experts():
    assert problem(moe(), ep=3)[1:] == ("ep 3 does not divide n_experts 4", "2 or 4 would do")
    assert problem(moe(n_experts=6), tp=4, ep=3)[1:] == (
        "ep 3 does not divide tp 4, and is no multiple of it",
        "2 would do",
    )
    # of ten ranks with the same tokens five share each expert
    assert problem(moe(), tp=2, ep=2, groups=5)[1:] == (
        "tp 10 with ep 2, 5 ranks for each expert, does not divide d_ff 12",
        "no tp above 1 would do",
    )
    beside = SharedSinkExperts(n_experts=4, n_shared=1, top_k=2, expert=MLP(d_ff=12))
    assert problem(decoder(Group(n_layers=1, layer=layer(ffn=beside))), ep=2) == (
        "groups.0.layer.ffn.n_shared",
        "ep 2 does not divide n_shared 1",
        "leave ep out",
    )


def refused(name, tp=2, **plan):
    return problem(load(name).model, tp=tp, **plan)[1:]


def test_what_is_not_split_is_said():
    assert refused("lfm2-350m") == (
        "a mixer of kind short_conv is not split: no plan says how",
        "leave tp out",
    )
    assert refused("gpt2-xl") == ("tp 2 does not divide n_heads 25", "5 or 25 would do")
    assert refused("falcon-7b") == ("tp 2 does not divide n_heads 71", "71 would do")
    assert refused("mamba2-2.7b")[1] == "no tp above 1 would do"
    assert "zero_experts" in refused("longcat-flash")[0]
    normed = moe(expert_out_norm=NORM)
    assert "whole outputs of experts" in problem(normed, tp=2)[1]
    assert "encoder-decoder" in refused("t5-small", sp=True)[0]
