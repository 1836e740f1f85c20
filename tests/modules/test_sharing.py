"""Layers that read keys and values or an index of an earlier one, embeddings of every layer, streams."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_text
from table import every_row

ATTENTION = "kind: gqa, n_heads: 2, n_kv_heads: 1, head_dim: 4"
LAYER = "{{kind: {kind}, {more}attention: {{{attention}}}, ffn: {{kind: glu, d_ff: 6}}}}"


def yaml(*groups, head=""):
    """A decoder of groups, each (number of layers, its layers)."""
    lines = "\n".join(f"  - {{n_layers: {n}, pattern: [{', '.join(layers)}]}}" for n, layers in groups)
    return f"vocab_size: 11\nd_model: 8\nnorm: rmsnorm\n{head}groups:\n{lines}\n"


def layer(source=None, kind="sandwich", more="", **fields):
    words = {**fields, **({} if source is None else {"kv_from": source})}
    attention = ", ".join([ATTENTION, *(f"{key}: {value}" for key, value in words.items())])
    return LAYER.format(kind=kind, more=more, attention=attention)


def model(*groups, head=""):
    return load_text(yaml(*groups, head=head), "f").model


INDEX = "{top_k: 3, n_heads: 16, head_dim: 6}"
OWN_INDEX, READS_INDEX = layer(index=INDEX), layer(index=INDEX, index_from=0)
TABLE = "per_layer_embedding: {width: 3, vocab_size: 7}\n"
OWN = (4, [layer(window=3), layer()])
SHARING = model(OWN, (6, [layer(2, window=3), layer(1)]))


def test_layers_that_read_others_have_neither_matrices_nor_a_cache():
    alone = model(OWN, (6, [layer(window=3), layer()]))
    params, every = (archcli.count_params(m).totals["params"] for m in (SHARING, alone))
    assert every - params == 6 * 2 * 8 * 4  # of 6 layers keys and values, one head of 4 on a width of 8
    held = archcli.count_kv_cache(SHARING, context=9)
    assert held.totals["elements"] == 2 * (2 * 3 * 4) + 2 * (2 * 9 * 4)  # 2 windows of 3, 2 of 9 tokens
    assert held.totals["held_by_engines"]["keys and values of its own in every layer"]["elements"] == (
        5 * (2 * 3 * 4) + 5 * (2 * 9 * 4)
    )


MISTAKES = {
    "later": ((2, [layer(), layer(1)]), "kv_from 1 is not before this layer, which is 1"),
    "itself borrowed": ((3, [layer(), layer(0), layer(1)]), "layer 1 reads those of layer 0"),
    "another window": ((2, [layer(window=3), layer(0)]), "layer 0 has window 3, this one None"),
    "another width": ((2, [layer(), layer(0, v_head_dim=2)]), "layer 0 has v_head_dim 4, this one 2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_layer_reads_keys_of_its_own_kind_from_before(name):
    group, message = MISTAKES[name]
    with pytest.raises(ArchError, match=message):
        model(group)


def test_a_layer_without_keys_lends_none():
    with pytest.raises(ArchError, match="layer 0 has no keys and values to share"):
        model((2, ["{kind: sandwich, ffn: {kind: glu, d_ff: 6}}", layer(0)]))


def test_a_branch_cannot_borrow():
    branches = f"kind: parallel, branches: [{{{ATTENTION}}}, {{{ATTENTION}, kv_from: 0}}]"
    with pytest.raises(ArchError, match="a branch of a mixer cannot read"):
        model((2, [layer(), f"{{kind: sandwich, attention: {{{branches}}}}}"]))


def test_gate_and_table_need_each_other():
    gated = layer(more="per_layer_gate: silu, ")
    with pytest.raises(ArchError, match="the model no per_layer_embedding"):
        model((1, [gated]))
    with pytest.raises(ArchError, match="no layer reads it"):
        model((1, [layer()]), head=TABLE)
    params = archcli.count_params(model((5, [gated]), head=TABLE)).totals["by_group"]
    assert params["per_layer_embedding"] == 7 * 5 * 3
    # of all layers a matrix of 8 x 3 and one norm of 3; of each two matrices and a norm of 8
    assert params["per_layer_input"] == 5 * 8 * 3 + 3 + 5 * (2 * 8 * 3 + 8)


def test_streams_are_those_of_every_layer():
    with pytest.raises(ArchError, match="layers of kind altup stand among others"):
        model((2, [layer(kind="altup"), layer()]))
    with pytest.raises(ArchError, match="active 4 is none of 4 streams"):
        model((1, [layer(kind="altup", more="active: 4, ")]))


@pytest.mark.parametrize(
    "last",
    [
        layer(0),
        layer(kind="altup"),
        layer(more="per_layer_gate: silu, "),
        layer(kind="hyper"),
        layer(index=INDEX, index_from=0),
    ],
)
def test_a_layer_that_needs_others_predicts_no_further_token(last):
    first = last if "altup" in last or "hyper" in last else OWN_INDEX if "index" in last else layer()
    with pytest.raises(ArchError, match="has one stream and keys and values of its own"):
        model((2, [first, last]), head="mtp: {depth: 1}\n" + (TABLE if "per_layer" in last else ""))


def test_layers_that_read_a_choice_have_no_indexer():
    every, fewer = (model((3, [OWN_INDEX, again])) for again in (OWN_INDEX, READS_INDEX))
    params, less = (archcli.count_params(m).totals["by_group"]["indexer"] for m in (every, fewer))
    # queries of 16 heads of 6, a key and its norm, a weight of each head, on a width of 8
    assert (params, less) == (3 * (8 * 96 + 8 * 6 + 12 + 8 * 16), 2 * (8 * 96 + 8 * 6 + 12 + 8 * 16))
    held, kept = (archcli.count_kv_cache(m, context=9).totals["elements"] for m in (every, fewer))
    assert (held, kept) == (3 * 9 * (2 * 4 + 6), 3 * 9 * 2 * 4 + 2 * 9 * 6)
    flops = [
        archcli.count_flops(m, seq_len=9).totals["by_component"]["attention_scores"] for m in (every, fewer)
    ]
    assert flops[0] == flops[1]


NO_INDEX = {
    "later": ([OWN_INDEX, layer(index=INDEX, index_from=1)], "index_from 1 is not before this layer"),
    "borrowed": (
        [OWN_INDEX, READS_INDEX, layer(index=INDEX, index_from=1)],
        "layer 1 reads those of layer 0",
    ),
    "another": (
        [layer(index="{top_k: 3, n_heads: 16, head_dim: 7}"), READS_INDEX],
        "has another index, or none",
    ),
    "none there": ([layer(), READS_INDEX], "layer 0 has another index, or none"),
    "none here": ([OWN_INDEX, layer(index_from=0)], "and the layer states none"),
    "both": ([OWN_INDEX, layer(0, index=INDEX, index_from=0)], "keys and values of an earlier one, or what"),
    "no attention": (
        ["{kind: sandwich, ffn: {kind: glu, d_ff: 6}}", READS_INDEX],
        "has no choice of an index",
    ),
}


@every_row("name", NO_INDEX)
def test_a_layer_reads_an_equal_index_from_before(name):
    layers, message = NO_INDEX[name]
    with pytest.raises(ArchError, match=message):
        model((len(layers), layers))


def test_a_choice_is_of_layers_not_of_branches_or_shared_blocks():
    own = f"{ATTENTION}, index: {INDEX}"
    branches = f"kind: parallel, branches: [{{{own}}}, {{{own}, index_from: 0}}]"
    with pytest.raises(ArchError, match="a branch of a mixer cannot read the choice of an index"):
        model((2, [OWN_INDEX, f"{{kind: sandwich, attention: {{{branches}}}}}"]))
    with pytest.raises(ArchError, match="reads nothing of one of them"):
        model((2, [OWN_INDEX, "{kind: shared, use: a}"]), head=f"shared: {{a: {READS_INDEX}}}\n")


HYPER = layer(kind="hyper", more="n_streams: 3, ")


def test_streams_of_one_kind():
    with pytest.raises(ArchError, match="layers of kind altup stand among others"):
        model((2, [layer(kind="altup", more="inputs: 3, "), HYPER]))
    with pytest.raises(ArchError, match="layers of kind hyper stand among others"):
        model((2, [layer(), HYPER]))
    with pytest.raises(ArchError, match="layers of kind hyper stand among others, or differ in their number"):
        model((2, [layer(kind="hyper"), HYPER]))
    with pytest.raises(ArchError, match="dropout is not defined for several streams"):
        model((1, [layer(kind="hyper", more="dropout: 0.1, ")]))


def test_layers_that_need_others_are_not_measured_alone():
    from archcli.wings.serving.predict.calibrate.cut import stand_alone

    assert not stand_alone(SHARING)
    assert not stand_alone(model((1, [layer(kind="altup")])))
    assert not stand_alone(model((1, [HYPER])))
    assert not stand_alone(model((2, [OWN_INDEX, READS_INDEX])))
    assert stand_alone(model(OWN))


@pytest.mark.long
@pytest.mark.torch
def test_all_of_it_is_verified():
    from asking import ask, failures

    streams = [
        layer(source, kind="altup", more="inputs: 3, laurel_rank: 2, per_layer_gate: silu, ", window=3)
        for source in (None, 1)
    ]
    assert failures(ask(SHARING)) == []
    assert failures(ask(model((2, streams[:1]), (2, streams[1:]), head=TABLE))) == []


@pytest.mark.torch
@pytest.mark.long
def test_all_of_it_compiles_and_trains():
    import torch

    words = "inputs: 3, laurel_rank: 2, per_layer_gate: silu, "
    late = layer(0, kind="altup", more=words).replace("d_ff: 6", "d_ff: 6, sparsity: 0.5")
    made = archcli.build(model((1, [layer(kind="altup", more=words)]), (2, [late]), head=TABLE))
    tokens = torch.arange(10).view(2, 5)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(tokens), made(tokens))
    made.train()(tokens, targets=tokens).backward()
    assert [name for name, weight in made.named_parameters() if weight.grad is None] == []


@pytest.mark.torch
@pytest.mark.long
def test_streams_compile_and_train():
    import torch

    made = archcli.build(model((2, [HYPER])))
    tokens = torch.arange(10).view(2, 5)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(tokens), made(tokens))
    made.train()(tokens, targets=tokens).backward()
    assert [name for name, weight in made.named_parameters() if weight.grad is None] == []


@pytest.mark.long
@pytest.mark.torch
def test_a_layer_alone_says_what_it_lacks():
    import torch

    made = archcli.build(SHARING)
    with pytest.raises(ArchError, match="reads keys and values of an earlier layer"):
        made.layers[4](torch.randn(1, 3, 8))
