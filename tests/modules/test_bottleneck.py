"""Layers with bottlenecks, heads of two matrices, neighbours: counts worked out, and what is refused."""

import pytest

import archcli
from archcli.errors import ArchError

D, W, F, V = 16, 6, 10, 50
NETWORK = {"kind": "mlp", "d_ff": F, "bias": True}
ATTENTION = {
    "kind": "bottleneck",
    "n_heads": 2,
    "head_dim": W // 2,
    "bias": True,
    "causal": False,
    "qk_width": W,
}
LAYER = {"kind": "bottleneck", "attention": ATTENTION, "ffn": NETWORK, "width": W, "networks": [NETWORK] * 2}


def encoder(embedding=None, attention=None, more=None, **layer):
    return {
        "kind": "encoder",
        "vocab_size": V,
        "d_model": D,
        "norm": "affine",
        "final_norm": False,
        "embedding": embedding or {},
        "groups": [{"n_layers": 2, "layer": {**LAYER, "attention": attention or ATTENTION, **layer}}],
        **(more or {}),
    }


def params(**given):
    return archcli.count_params(encoder(**given)).totals["params"]


def flops(tokens, **given):
    return archcli.count_flops(encoder(**given), seq_len=tokens).totals["matmul_flops"]


TO_W, TO_D = D * W + W, W * D + D
"""Matrices to the bottleneck and back, with their biases."""
ATTENDING = TO_W + 2 * W + 2 * (W * W + W) + TO_W + W * W + W
"""A bottleneck of queries and keys and its norm, their projections, values of the stream, the result."""
NETWORKS = 3 * (2 * W * F + F + W)
NORMS = 2 * W * (1 + 1 + 3) + 2 * D


def test_parameters_are_those_of_two_bottlenecks_and_three_networks():
    assert params() == V * D + 2 * (TO_W + ATTENDING + NETWORKS + TO_D + NORMS)


def test_attention_on_the_bottleneck_has_none_of_its_own():
    alone = {**{key: value for key, value in ATTENTION.items() if key != "qk_width"}, "kind": "mha"}
    layer = TO_W + 4 * (W * W + W) + NETWORKS + TO_D + NORMS
    assert params(attention=alone, reads="bottleneck") == V * D + 2 * layer


def test_without_a_width_it_is_a_post_norm_layer_with_several_networks():
    plain = {"kind": "mha", "n_heads": 2, "causal": False}
    layer = 4 * D * D + 3 * (2 * D * F + F + D) + 4 * 2 * D
    assert params(attention=plain, width=None) == V * D + 2 * layer


def test_flops_go_by_the_width_that_each_matrix_reads():
    tokens = 7
    matrices = 2 * D * W + 2 * W * W + D * W + W * W + 3 * 2 * W * F + W * D
    scored = 2 * tokens * tokens * W  # scores and mix, over both heads
    assert flops(tokens) == 2 * 2 * (tokens * matrices + scored)


def test_a_token_reads_its_neighbours_where_that_is_stated():
    alone, joined = ({"width": 4, "neighbours": n} for n in (0, 1))
    assert params(embedding=alone) == params() - V * D + V * 4 + 4 * D + D
    assert params(embedding=joined) - params(embedding=alone) == 2 * 4 * D


def test_a_head_of_two_matrices_is_as_wide_as_the_layers():
    head = {"table_width": 4, "transform": False, "norm": "layernorm"}
    narrow = {"width": 4, "neighbours": 1}
    tied = params(embedding={**narrow, "tied": True}, more={"head": head})
    assert tied - params(embedding=narrow) == V * (D - 4) + V
    untied = params(embedding={**narrow, "tied": False}, more={"head": head})
    assert untied - tied == V * 4
    without = flops(5, embedding=narrow)
    assert flops(5, embedding={**narrow, "tied": True}, more={"head": head}) - without == 2 * 5 * D * V


def test_a_pooler_without_a_matrix_is_the_first_token():
    labelled = {"pooler": True, "n_labels": 3}
    assert params(more={**labelled, "pooler_dense": False}) - params() == 3 * D + 3
    assert params(more=labelled) - params() == D * D + D + 3 * D + 3
    assert flops(5, more={**labelled, "pooler_dense": False}) - flops(5) == 2 * 3 * D


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ffn": None}, "it has attention and networks"),
        ({"width": None, "reads": "bottleneck"}, "reads bottleneck needs the width"),
        ({"attention": {"kind": "fourier"}}, "returns vectors of another width"),
        ({"attention": {**ATTENTION, "head_dim": None}}, "head_dim left out is d_model / n_heads"),
        ({"networks": [{"kind": "rwkv_channel_mix", "d_ff": F}]}, "cannot carry a state"),
        ({"attention": {**ATTENTION, "blocks": [1, 1, 2, 1]}}, "its matrices are whole"),
        ({"embedding": {"neighbours": 1}}, "state width, and no width_of"),
        ({"embedding": {"neighbours": 1, "width": 4, "width_of": "all"}}, "state width, and no width_of"),
        (
            {"embedding": {"width": 4, "neighbours": 1, "tied": True}, "more": {"head": {"table_width": 5}}},
            "the tied table has vectors of 4",
        ),
        (
            {"embedding": {"width": D, "neighbours": 1, "tied": True}, "more": {"head": {"table_width": D}}},
            "leaves nothing beside",
        ),
    ],
    ids=[
        "no-network",
        "no-width",
        "fourier",
        "no-head-dim",
        "state",
        "blocks",
        "no-table-width",
        "narrow-all",
        "other-table",
        "full-table",
    ],
)
def test_what_does_not_go_with_it_is_refused(given, message):
    with pytest.raises(ArchError) as refused:
        archcli.load(encoder(**given))
    said = refused.value.problems[0]
    assert message in f"{said.what}; {said.hint}"
