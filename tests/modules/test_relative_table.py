"""The table of relative positions that a stack states and disentangled attention reads."""

import pytest

import archcli
from archcli.errors import ArchError

ATTENTION = {"kind": "disentangled", "n_heads": 2, "causal": False, "bias": True, "buckets": 3}


def encoder(attention=ATTENTION, **more):
    layer = {"kind": "post_norm", "attention": attention, "ffn": {"kind": "mlp", "d_ff": 8}}
    groups = [{"n_layers": 2, "layer": layer}]
    return {"kind": "encoder", "vocab_size": 11, "d_model": 4, "norm": "layernorm", "groups": groups, **more}


def test_the_table_is_one_for_all_layers():
    mha = {"kind": "mha", **{key: ATTENTION[key] for key in ("n_heads", "causal", "bias")}}
    plain = archcli.count_params(encoder(mha)).totals["params"]
    own = 2 * 2 * (4 * 4 + 4)  # a second projection for keys and for queries, in two layers
    placed = archcli.count_params(encoder(relative={"size": 3})).totals["params"]
    assert placed == plain + 2 * 3 * 4 + own


@pytest.mark.parametrize(
    ("given", "code", "path", "what"),
    [
        (encoder(), "relative-missing", "groups.0.layer.attention", "reads a table of relative positions"),
        (encoder(relative={"size": 4}), "relative-size", "groups.0.layer.attention", "reads 3 relative"),
        (
            encoder({"kind": "mha", "n_heads": 2, "causal": False}, relative={"size": 3}),
            "relative-unused",
            "relative",
            "no layer reads",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "-" in value else "",
)
def test_it_is_stated_where_it_is_read_and_as_large(given, code, path, what):
    with pytest.raises(ArchError, match=what) as caught:
        archcli.load(given)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, path)]


def test_multi_token_prediction_has_none():
    layer = {"kind": "pre_norm", "attention": ATTENTION, "ffn": {"kind": "mlp", "d_ff": 8}}
    plain = {"kind": "pre_norm", "attention": {"kind": "mha", "n_heads": 2}}
    given = {
        **encoder(),
        "kind": "decoder",
        "groups": [{"n_layers": 1, "layer": plain}],
        "mtp": {"layer": layer},
    }
    with pytest.raises(ArchError, match="no relative positions"):
        archcli.load(given)
