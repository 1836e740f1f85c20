"""What two architectures state differently, and their figures beside each other, worked out by hand."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_preset, load_text
from archcli.load.spec.written import to_mapping
from archcli.measure.survey.compare.differences import ModelSettings, differences
from archcli.measure.survey.compare.report import Compared, compare_models
from archcli.modules import GLU, Embedding, Group, Learned, MixtureOfExperts, MultiHeadAttention, QKNorm
from archcli.modules.spec.request import Request
from small import NORM, attention, decoder, layer

TABLE = 50 * 8
ATTENTION = 8 * (4 * 2) + 2 * 8 * (2 * 2) + (4 * 2) * 8
FFN = 3 * 8 * 12
LAYER = ATTENTION + FFN + 2 * 8


def stated(model):
    return ModelSettings(model, to_mapping(model))


def differing(*models):
    return {one.path: one.values for one in differences([stated(model) for model in models])}


def compared(*models, context=None, dtype="bf16", mla="naive", **options):
    return compare_models(
        [Compared(f"m{i}", "here", stated(model)) for i, model in enumerate(models, 1)],
        Request(**options, forms={"mla": mla}),
        context=context,
        dtype=dtype,
    )


def rows(report):
    return {row["key"]: row for row in report.rows}


def test_only_what_differs_is_told_by_its_full_path():
    assert differing(decoder(), decoder(Group(n_layers=5, layer=layer(ffn=GLU(d_ff=16))), tied=True)) == {
        "embedding.tied": ("false", "true"),
        "groups.0.n_layers": ("3", "5"),
        "groups.0.layer.ffn.d_ff": ("12", "16"),
    }


def test_the_same_twice_differs_in_nothing():
    assert differing(decoder(), decoder(name="other", source="elsewhere", published={"params": 3})) == {}
    assert "their YAML says the same." in compared(decoder(), decoder()).notes


def test_another_kind_brings_its_own_settings():
    """What a model has no place for is None; what it leaves to a default is that default."""
    mha = MultiHeadAttention(n_heads=4, head_dim=4, qk_norm=QKNorm(per="full", norm=NORM))
    assert differing(decoder(), decoder(Group(n_layers=3, layer=layer(mha)))) == {
        "groups.0.layer.attention.kind": ("gqa", "mha"),
        "groups.0.layer.attention.head_dim": ("2", "4"),
        "groups.0.layer.attention.n_kv_heads": ("2", None),
        "groups.0.layer.attention.qk_norm.per": (None, "full"),
    }


def test_a_part_that_is_there_or_not():
    with_norm = decoder(Group(n_layers=3, layer=layer(attention(qk_norm=QKNorm(norm=NORM)))))
    assert differing(decoder(), with_norm) == {"groups.0.layer.attention.qk_norm": ("null", "{}")}
    assert differing(decoder(), decoder(head=None))["head"] == ("linear", "null")


def test_a_width_left_out_is_the_width_it_is():
    left_out = decoder(Group(n_layers=3, layer=layer(attention(head_dim=None))))
    assert differing(decoder(), left_out) == {}
    assert differing(decoder(Group(n_layers=3, layer=layer(attention(head_dim=6)))), left_out) == {
        "groups.0.layer.attention.head_dim": ("6", "2")
    }


def test_groups_of_one_layout_line_up():
    def mixed(window):
        return decoder(
            Group(n_layers=1, layer=layer()),
            Group(n_layers=4, pattern=(layer(attention(window=window)), layer())),
        )

    assert differing(mixed(16), mixed(32)) == {"groups.1.pattern.0.attention.window": ("16", "32")}


def test_groups_of_another_layout_are_told_of_all_layers():
    moe = MixtureOfExperts(n_experts=4, top_k=2, expert=GLU(d_ff=5))
    windows = Group(n_layers=5, pattern=(layer(attention(window=16)), layer()))
    found = differing(decoder(), decoder(windows, Group(n_layers=2, layer=layer(ffn=moe))))
    assert found == {
        "groups": ("3", "5 in a pattern of 2 + 2"),
        "layers.*.attention.window": ("null", "16 ×3, null ×4"),
        "layers.*.ffn.kind": ("glu", "glu ×5, moe ×2"),
        "layers.*.ffn.d_ff": ("12", "12 ×5, - ×2"),
        "layers.*.ffn.n_experts": (None, "- ×5, 4 ×2"),
        "layers.*.ffn.top_k": (None, "- ×5, 2 ×2"),
        "layers.*.ffn.expert.kind": (None, "- ×5, glu ×2"),
        "layers.*.ffn.expert.d_ff": (None, "- ×5, 5 ×2"),
    }
    assert any("layers.*" in note for note in compared(decoder(), decoder(windows)).notes)


def test_patterns_of_another_length_do_not_line_up():
    local = layer(attention(window=16))
    two, three = (decoder(Group(n_layers=6, pattern=(*[local] * n, layer()))) for n in (1, 2))
    assert differing(two, three) == {
        "groups": ("6 in a pattern of 2", "6 in a pattern of 3"),
        "layers.*.attention.window": ("16 ×3, null ×3", "16 ×4, null ×2"),
    }


BLOCK = (
    "{{kind: pre_norm, attention: {{kind: mha, n_heads: 2{causal}}}, ffn: {{kind: mlp, d_ff: 16}}{cross}}}"
)
HALF = f"{{{{groups: [{{{{n_layers: {{n}}, layer: {BLOCK}}}}}]}}}}"


def encoder_decoder():
    encoder = HALF.format(n=2, causal=", causal: false", cross="")
    half = HALF.format(n=3, causal="", cross=", cross_attention: {kind: cross, n_heads: 2}")
    return load_text(
        f"kind: encoder_decoder\nvocab_size: 50\nd_model: 8\nnorm: rmsnorm\nencoder: {encoder}\n"
        f"decoder: {half}\n",
        "t",
    ).model


def test_a_decoder_stands_beside_the_decoder_half():
    found = differing(decoder(), encoder_decoder())
    assert found["kind"] == ("decoder", "encoder_decoder")
    assert found["decoder.layers.*.attention.kind"] == ("gqa", "mha")
    assert found["encoder.layers.*.attention.causal"] == (None, "false")
    assert found["decoder.layers.*.cross_attention.n_heads"] == (None, "2")
    assert found["encoder.groups"] == (None, "2")
    assert "decoder.groups" not in found


def test_parameters_and_their_ratios():
    two = decoder(
        Group(n_layers=6, layer=layer()), embedding=Embedding(tied=True, position=Learned(max_seq_len=16))
    )
    found = rows(compared(decoder(), two, dtype="fp8"))
    first, second = 3 * LAYER + 8 + 2 * TABLE, 6 * LAYER + 8 + TABLE + 16 * 8
    assert (found["params"]["value_1"], found["params"]["value_2"], found["params"]["ratio_2"]) == (
        first,
        second,
        second / first,
    )
    assert (found["bytes"]["value_1"], found["bytes"]["value_2"]) == (first, second)
    assert (found["ffn"]["value_2"], found["ffn"]["ratio_2"]) == (6 * FFN, 2.0)
    assert (found["lm_head"]["value_2"], found["lm_head"]["ratio_2"]) == (0, 0.0)
    assert (found["position_embedding"]["value_1"], found["position_embedding"]["ratio_2"]) == (0, None)


def test_flops_of_a_forward_and_of_a_token():
    """2 per multiply-add; a causal pair costs 2 d for the score and 2 d for the mix, per head."""
    found = rows(compared(decoder(), decoder(), batch_size=2, seq_len=6, past=10))
    projections, head = 2 * (ATTENTION + FFN), 2 * 8 * 50
    pairs = 6 * 7 // 2
    assert found["forward_matmul_flops"]["value_1"] == 2 * (
        6 * (3 * projections + head) + 3 * pairs * 4 * 4 * 2
    )
    assert found["decode_matmul_flops"]["value_1"] == 2 * (3 * projections + head + 3 * 11 * 4 * 4 * 2)
    assert found["forward_other_flops"]["value_1"] > 0


def test_the_cache_in_a_dtype_at_a_context():
    windowed = decoder(Group(n_layers=3, layer=layer(attention(window=4))))
    found = rows(compared(decoder(), windowed, batch_size=2, seq_len=6, context=10, dtype="fp32"))
    token = 3 * 2 * 2 * 2 * 4
    assert (found["kv_bytes_per_token"]["value_1"], found["kv_bytes_per_token"]["ratio_2"]) == (token, 1.0)
    assert (found["kv_bytes"]["value_1"], found["kv_bytes"]["value_2"]) == (2 * 10 * token, 2 * 4 * token)
    assert "cross_kv_bytes" not in found
    assert rows(compared(decoder(), windowed, seq_len=6))["kv_bytes"]["value_1"] == 6 * token // 2


def test_a_source_is_apart():
    found = rows(compared(decoder(), encoder_decoder(), seq_len=6, source_len=5))
    assert (found["cross_kv_bytes"]["value_1"], found["cross_kv_bytes"]["value_2"]) == (0, 3 * 2 * 5 * 8 * 2)


def test_latent_attention_in_the_form_that_is_asked_for():
    deepseek = load_preset("deepseek-v3")
    forms = [
        rows(compared(decoder(), deepseek.model, seq_len=16, mla=form))["decode_matmul_flops"]
        for form in ("naive", "absorbed")
    ]
    assert forms[0]["value_1"] == forms[1]["value_1"]
    assert forms[0]["value_2"] > forms[1]["value_2"]


def test_an_encoder_generates_nothing():
    layer_ = (
        "{kind: post_norm, attention: {kind: mha, n_heads: 2, causal: false}, ffn: {kind: mlp, d_ff: 16}}"
    )
    text = (
        f"kind: encoder\nvocab_size: 50\nd_model: 8\nnorm: layernorm\ngroups: [{{n_layers: 2, layer: "
        f"{layer_}}}]\n"
    )
    found = rows(compared(decoder(), load_text(text, "bert").model, seq_len=6))
    assert (found["decode_matmul_flops"]["value_2"], found["decode_matmul_flops"]["ratio_2"]) == (None, None)
    assert found["kv_bytes"]["value_2"] == 0


def test_structure_is_told_where_it_differs():
    found = rows(compared(decoder(), decoder(Group(n_layers=3, layer=layer(attention(window=4, bias=True))))))
    assert (found["pattern"]["value_1"], found["pattern"]["value_2"]) == ("full", "window 4")
    assert (found["bias"]["value_1"], found["bias"]["value_2"]) == ("none", "attention")
    assert not {"norm", "activation", "placement"} & set(found)
    assert found["head_ratio"]["value_1"] == found["head_ratio"]["value_2"] == 1.0


def test_few_models_are_columns_and_many_are_rows():
    few, many = compared(*[decoder()] * 3), compared(*[decoder()] * 4)
    assert [column.title for column in few.tables[0].columns] == ["", "m1", "m2", "ratio", "m3", "ratio"]
    assert [record["model"] for record in many.tables[0].records] == ["m1", "m2", "m3", "m4"]
    assert (few.totals["models"], few.totals["differences"]) == (3, 0)
    assert few.totals["figures"]["params"]["ratios"] == [1.0, 1.0, 1.0]
    assert few.headline == "m2 beside m1: all the same; m3: all the same"


@pytest.mark.parametrize("n", [0, 1])
def test_one_model_cannot_be_compared(n):
    with pytest.raises(ArchError, match="compare needs two models or more"):
        compared(*[decoder()] * n)


def test_a_length_beyond_what_a_model_was_made_for_is_noted():
    notes = compared(decoder(max_seq_len=8), decoder(), seq_len=9).notes
    assert [note for note in notes if "beyond" in note] == [
        "m1: 9 tokens are beyond max_seq_len 8: counted by shape all the same."
    ]
