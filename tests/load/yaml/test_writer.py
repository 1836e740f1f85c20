"""A model written down and loaded again is the same model."""

from hypothesis import given
from hypothesis import strategies as st

from archcli.load.presets import presets
from archcli.load.source import load, load_text
from archcli.load.spec.written import to_mapping, to_yaml
from archcli.modules import ALiBi, LayerNorm, RMSNorm, Rope
from table import every_row, sampled_rows

TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=30).filter(str.isprintable)


@sampled_rows("name", presets(), 4)
def test_a_preset_survives(name):
    model = load(name).model
    text = to_yaml(model)
    assert load_text(text, "f").model == model
    assert to_yaml(load_text(text, "f").model) == text
    assert max(map(len, text.splitlines())) <= 120


def test_defaults_and_what_is_inherited_are_left_out(tiny):
    assert to_yaml(load_text(tiny, "f").model) == (
        "name: tiny-llama\n"
        "source: arXiv:2407.21783\n"
        "vocab_size: 1000\n"
        "d_model: 64\n"
        "max_seq_len: 128\n"
        "norm: {kind: rmsnorm, eps: 1e-05}\n"
        "groups:\n"
        "  - n_layers: 3\n"
        "    layer:\n"
        "      kind: pre_norm\n"
        "      attention: {kind: gqa, n_heads: 8, position: {kind: rope, theta: 500000}, head_dim: "
        "8, n_kv_heads: 2}\n"
        "      ffn: {kind: glu, d_ff: 128}\n"
    )


def test_a_norm_of_a_layers_own_is_kept(tiny):
    model = load_text(tiny, "f", ["groups.0.layer.norm=layernorm"]).model
    assert to_mapping(model)["groups"][0]["layer"]["norm"] == "layernorm"
    assert load_text(to_yaml(model), "f").model == model


WORDS = ["", "no", "1e5", "null", "~", "*a", "&a", "!a", "@a", "%a", "0x1", "😀"]
NAMES = [*WORDS, "a: b", "a #b", "- a", "[a]", "{a}", "'a", '"a"', "a'b", "x\\ny", " a"]


@every_row("name", NAMES)
def test_a_name_that_yaml_could_take_for_something_else_is_quoted(name, tiny):
    model = load_text(tiny, "f").model.replace(name=name)
    assert load_text(to_yaml(model), "f").model == model


@given(
    name=TEXTS,
    published=st.dictionaries(TEXTS, st.integers(-(10**20), 10**20), max_size=3),
    released=st.sampled_from([None, 2024, "2024", "2024-07"]),
    series=TEXTS,
    d_model=st.integers(1, 10**12),
    norm=st.builds(RMSNorm, eps=st.floats(1e-12, 1e12), offset=st.sampled_from([0, 1]))
    | st.builds(LayerNorm, bias=st.booleans()),
    position=st.builds(Rope, theta=st.floats(1, exclude_min=True, allow_infinity=False)) | st.builds(ALiBi),
)
def test_any_model_survives(name, published, released, series, d_model, norm, position):
    model = load("gpt2").model
    [group] = model.groups
    attention = group.layer.attention.replace(position=position, head_dim=64)
    layer = group.layer.replace(attention=attention, norm=norm)
    changes = {
        "name": name,
        "published": published,
        "released": released,
        "series": series,
        "d_model": d_model,
        "norm": norm,
        "groups": (
            group.replace(layer=layer),
            group.replace(n_layers=1, layer=layer),
        ),
    }
    model = model.replace(**changes)
    assert load_text(to_yaml(model), "f").model == model
