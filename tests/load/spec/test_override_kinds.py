"""--set KIND: a kind set over the one of the file, and the parts that inherit it."""

import pytest

from archcli.load.source import load_text
from archcli.modules import settings


def test_a_kind_set_over_the_file_leaves_out_what_it_lacks_and_says_so(tiny):
    loaded = load_text(tiny, "f", ["groups.0.layer.attention.kind=mha"])
    now = dict(settings(loaded.model))
    assert now["groups.0.layer.attention.kind"] == "mha"
    assert now["groups.0.layer.attention.n_heads"] == 8
    assert "groups.0.layer.attention.n_kv_heads" not in now
    assert loaded.notes == ("mha has no n_kv_heads: what the file says of it was left out.",)
    assert load_text(tiny, "f", ["groups.0.layer.attention.n_kv_heads=8"]).notes == ()


def test_a_kind_set_over_the_file_still_refuses_what_no_kind_has(tiny, refused):
    text = tiny.replace("kind: gqa,", "kind: gqa, n_kv_head: 2,").replace(
        "kind: gqa\n", "kind: gqa\n        n_kv_head: 2\n"
    )
    assert text != tiny
    assert any("unknown key 'n_kv_head'" in line for line in refused(text, "attention.kind=mha"))


def test_a_kind_set_over_the_file_asks_for_what_it_needs(tiny, refused):
    assert [line.partition(" ")[2] for line in refused(tiny, "ffn.kind=moe")] == [
        f"missing key {key}" for key in ("n_experts", "top_k", "expert")
    ]


@pytest.fixture
def with_qk_norm(tiny):
    """Norms at the top, in every layer, and of queries and keys, all inherited from the top."""
    return tiny.replace("eps: 1e-5", "eps: 1e-3").replace("head_dim: 8", "head_dim: 8\n        qk_norm: {}")


def norms(text, override):
    now = dict(settings(load_text(text, "f", [override]).model))
    assert {value for path, value in now.items() if path.endswith("norm.eps")} == {1e-3}
    return {path.removesuffix(".kind"): kind for path, kind in now.items() if path.endswith("norm.kind")}


def test_the_end_of_a_path_means_the_inherited_parts_alone(with_qk_norm):
    assert norms(with_qk_norm, "layer.norm.kind=layernorm") == {
        "norm": "rmsnorm",
        "groups.0.layer.norm": "layernorm",
        "groups.0.layer.attention.qk_norm.norm": "rmsnorm",
    }


def test_a_kind_at_the_top_reaches_every_norm_that_inherits_it(with_qk_norm):
    assert set(norms(with_qk_norm, "norm.kind=layernorm").values()) == {"layernorm"}
