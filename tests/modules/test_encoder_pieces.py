"""The pieces of encoders, written out from their papers around the leaves of a built model."""

import pytest
import torch
from torch import nn

import archcli
from archcli.modules import Encoder
from archcli.ops import DisentangledBias
from ops.encoder_cases import disentangled
from zoo import V, assert_close, built, tokens

torch.set_num_threads(1)
MIXER = {"kind": "mha", "n_heads": 4, "bias": True, "causal": False}
PLACED = {**MIXER, "kind": "disentangled", "max_distance": 4}
HEADS = 4


def encoder(mixer=MIXER, **more) -> Encoder:
    """A layer after BERT with this mixer."""
    layer = {"kind": "post_norm", "attention": mixer, "ffn": {"kind": "mlp", "d_ff": 20}}
    fields = {"vocab_size": V, "d_model": 16, "norm": "layernorm", "final_norm": False}
    return archcli.load({"kind": "encoder", **fields, "groups": [{"n_layers": 1, "layer": layer}], **more})


def read(made, ids):
    """What comes out of the layers."""
    return made.layers[0](made.embedding.tokens(ids))[0]


def as_heads(x):
    return x.unflatten(-1, (HEADS, -1))


DISENTANGLED = {
    "own": {**PLACED},
    "shared": {**PLACED, "share": True},
    "first": {**PLACED, "terms": ["c2p"]},
    "second": {**PLACED, "terms": ["p2c"]},
    "buckets": {**PLACED, "buckets": 4, "max_distance": 6},
}


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("name", DISENTANGLED)
def test_disentangled_scores_are_those_of_contents_and_of_positions(name):
    """arXiv:2006.03654 equation 4: q_i k_j + q_i r_(i-j) + k_j s_(i-j), all over the root of so many d."""
    mixer, ids = DISENTANGLED[name], tokens()
    terms, share = mixer.get("terms", ["c2p", "p2c"]), mixer.get("share", False)
    made = built(encoder(mixer, relative={"size": 4}))
    node, table = made.layers[0].attention, made.relative.weight
    x = made.embedding.tokens(ids)
    q, k, v = (as_heads(getattr(node, f"{which}_proj")(x)) for which in "qkv")
    scale = q.shape[-1] ** -0.5
    projected = {"c2p": "k", "p2c": "q"}
    scores = [
        torch.einsum(
            "bthd,shd->bhts",
            {"c2p": q, "p2c": k}[term],
            as_heads(getattr(node, f"{'' if share else 'pos_'}{projected[term]}_proj")(table)),
        )
        for term in terms
    ]
    op = DisentangledBias(
        "y", 4, mixer.get("buckets"), mixer["max_distance"], scale, "c2p" in terms, "p2c" in terms
    )
    bias = disentangled(op, {}, *scores)
    weights = (torch.einsum("bthd,bshd->bhts", q, k) * scale + bias).softmax(-1)
    expected = node.o_proj(torch.einsum("bhts,bshd->bthd", weights, v).flatten(-2))
    with torch.no_grad():
        layer = made.layers[0]
        y = layer.attention_norm(x + expected)
        assert_close(made(ids), layer.ffn_norm(y + layer.ffn(y)))
    assert hasattr(node, "pos_k_proj") == ("c2p" in terms and not share)
    assert hasattr(node, "pos_q_proj") == ("p2c" in terms and not share)


def test_fourier_mixing_is_two_matrix_products_and_has_no_weights():
    """arXiv:2105.03824 section 3.2: the transform written as matrices of roots of unity, one per axis."""
    made, ids = built(encoder({"kind": "fourier"})), tokens()
    layer, x = made.layers[0], made.embedding.tokens(ids)

    def roots(n):
        places = torch.arange(n, dtype=torch.float64)
        return torch.exp(-2j * torch.pi * torch.outer(places, places) / n)

    mixed = torch.einsum("ut,btd,dv->buv", roots(x.shape[1]), x.to(torch.complex128), roots(x.shape[2]))
    with torch.no_grad():
        y = layer.attention_norm(x + mixed.real.float())
        assert_close(made(ids), layer.ffn_norm(y + layer.ffn(y)))
    assert not [name for name, _ in made.named_parameters() if ".attention." in name]


POOLERS = {
    "first": ({}, torch.tanh, slice(0, 1)),
    "every": ({"pools": "every", "pooler_activation": "gelu"}, nn.functional.gelu, slice(None)),
}


@pytest.mark.parametrize("name", POOLERS)
def test_a_pooler_reads_the_first_token_or_every_one(name):
    fields, function, which = POOLERS[name]
    made, ids = built(encoder(pooler=True, n_labels=3, **fields)), tokens()
    pooled = function(made.pooler(read(made, ids)[:, which]))
    assert_close(made(ids), made.classifier(pooled))


def test_what_an_encoder_leaves_unread_changes_nothing_but_its_size():
    spec, ids = encoder(unread={"second_bias": 7, "table": [3, 5]}), tokens()
    made = built(spec)
    before = made(ids)
    assert made.second_bias.weight.shape == (7,)
    assert made.table.weight.shape == (3, 5)
    with torch.no_grad():
        made.second_bias.weight.fill_(float("nan"))
        made.table.weight.fill_(float("nan"))
    assert torch.equal(made(ids), before)
    plain = archcli.count_params(encoder()).totals["params"]
    assert archcli.count_params(spec).totals["params"] == plain + 7 + 15


def squeezed(made, x):
    hidden = nn.functional.gelu(made.lm_head_transform(x))
    return nn.functional.gelu(made.lm_head_transform_back(hidden))


def dense(made, x):
    return made.lm_head_norm(nn.functional.gelu(made.lm_head_transform(x)))


MASKED = {
    "whole": ({}, dense, {"lm_head_transform": (16, 16, True), "lm_head": (V, 16, True)}),
    "no-transform": ({"transform": False}, lambda made, x: x, {"lm_head": (V, 16, True)}),
    "no-biases": (
        {"transform_bias": False, "bias": False},
        dense,
        {"lm_head_transform": (16, 16, False), "lm_head": (V, 16, False)},
    ),
    "narrow": ({"width": 6}, dense, {"lm_head_transform": (6, 16, True), "lm_head": (V, 6, True)}),
    "bottleneck": (
        {"bottleneck": 5},
        squeezed,
        {
            "lm_head_transform": (5, 16, False),
            "lm_head_transform_back": (16, 5, False),
            "lm_head": (V, 16, True),
        },
    ),
}


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", MASKED)
def test_a_head_that_guesses_words_transforms_as_its_fields_say(name):
    fields, transform, matrices = MASKED[name]
    made, ids = built(encoder(head=fields)), tokens()
    assert_close(made(ids), made.lm_head(transform(made, read(made, ids))))
    for matrix, (out, wide, biased) in matrices.items():
        leaf = getattr(made, matrix)
        assert (tuple(leaf.weight.shape), leaf.bias is not None) == ((out, wide), biased)
    given = {child for child, _ in made.named_children() if child.startswith("lm_head")}
    assert {child for child in given if child not in ("lm_head_norm", *matrices)} <= {
        "lm_head_activation",
        "lm_head_activation_back",
    }
    assert ("lm_head_norm" in given) == (transform is dense)
