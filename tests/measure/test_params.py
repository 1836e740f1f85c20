"""Parameters, each worked out by hand."""

import pytest

from archcli.load.source import load
from archcli.measure.params import count_params
from archcli.modules import GLU, Embedding, Group, Head, Learned, MixtureOfExperts
from archcli.modules.models.layers import folded_path
from small import attention, decoder, layer
from table import every_row

ATTENTION = 8 * (4 * 2) + 2 * 8 * (2 * 2) + (4 * 2) * 8
FFN = 3 * 8 * 12
NORMS = 2 * 8
TABLE = 50 * 8


def totals(model, **options):
    return count_params(model, **options).totals


def test_groups_add_up_to_the_total():
    found = totals(decoder())
    assert found["by_group"] == {
        "ffn": 3 * FFN,
        "attention": 3 * ATTENTION,
        "embedding": TABLE,
        "lm_head": TABLE,
        "norms": 3 * NORMS + 8,
    }
    assert found["params"] == sum(found["by_group"].values()) == 3 * (ATTENTION + FFN + NORMS) + 8 + 2 * TABLE
    assert found["active_params"] == found["params"]


def test_an_untied_input_table_is_left_out_a_tied_one_is_not():
    untied, tied = totals(decoder()), totals(decoder(tied=True))
    assert untied["active_params_excl_input_embedding"] == untied["params"] - TABLE
    assert tied["active_params_excl_input_embedding"] == tied["params"] == untied["params"] - TABLE
    assert (untied["embedding_params"], tied["embedding_params"]) == (TABLE, TABLE)
    assert (untied["head_params"], tied["head_params"]) == (TABLE, 0)
    assert "lm_head" not in tied["by_group"]


def test_tables_and_an_untied_head_are_no_body():
    learned = Embedding(position=Learned(max_seq_len=16))
    found = totals(decoder(embedding=learned, head=Head(bias=True)))
    assert found["by_group"]["position_embedding"] == 16 * 8
    assert found["by_group"]["lm_head"] == TABLE + 50
    assert (found["embedding_params"], found["head_params"]) == (TABLE, TABLE + 50)
    assert found["non_embedding_params"] == 3 * (ATTENTION + FFN + NORMS) + 8


def test_of_routed_experts_k_are_active():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5), shared=GLU(d_ff=7))
    found = totals(decoder(Group(n_layers=3, layer=layer(ffn=moe))))
    expert = 3 * 8 * 5
    assert found["by_group"]["experts"] == 3 * 6 * expert
    assert found["by_group"]["shared_experts"] == 3 * 3 * 8 * 7
    assert found["by_group"]["router"] == 3 * 6 * 8
    assert found["active_params"] == found["params"] - 3 * 4 * expert


@pytest.mark.parametrize(
    ("depth", "paths"),
    [
        (0, ["total"]),
        (1, ["embedding", "layers", "final_norm", "lm_head"]),
        (2, ["embedding.tokens", "layers.*", "final_norm", "lm_head"]),
        (
            3,
            [
                "embedding.tokens",
                "layers.*.attention_norm",
                "layers.*.attention",
                "layers.*.ffn_norm",
                "layers.*.ffn",
                "final_norm",
                "lm_head",
            ],
        ),
    ],
)
def test_paths_fold_layers_and_end_at_the_depth(depth, paths):
    model = decoder(Group(n_layers=1, layer=layer()), Group(n_layers=2, layer=layer(attention(n_kv_heads=4))))
    report = count_params(model, depth=depth)
    assert [row["path"] for row in report.rows] == paths
    assert sum(row["params"] for row in report.rows) == report.totals["params"]


@pytest.mark.parametrize(("dtype", "bits"), [("fp32", 32), ("bf16", 16), ("fp8", 8), ("int4", 4)])
def test_bytes_are_whole(dtype, bits):
    found = totals(decoder(), dtype=dtype)
    assert found["bytes"] == -(-found["params"] * bits // 8)


def test_a_billion_layers_are_counted_at_once():
    found = totals(decoder(Group(n_layers=10**9, layer=layer())))
    assert found["params"] == 10**9 * (ATTENTION + FFN + NORMS) + 8 + 2 * TABLE


@every_row(
    ("path", "depth", "folded"),
    [
        ("layers.7.ffn.up_proj", None, "layers.*.ffn.up_proj"),
        ("encoder.layers.10.ffn.up_proj", None, "encoder.layers.*.ffn.up_proj"),
        ("decoder.rotary.2", None, "decoder.rotary.*"),
        ("decoder.layers.3.ffn.up_proj", 3, "decoder.layers.*"),
        ("layers.3", 1, "layers"),
        ("lm_head", 0, ""),
    ],
)
def test_layers_fold_wherever_their_stack_is(path, depth, folded):
    assert folded_path(path, depth) == folded


def test_a_frozen_table_is_counted_and_does_not_train():
    # whisper-small's encoder: sinusoids of 1,500 positions, 768 wide, which transformers and torch hold as a
    # parameter without a gradient
    totals = count_params(load("whisper-small").model).totals
    assert totals["params"] - totals["trainable_params"] == 1500 * 768
