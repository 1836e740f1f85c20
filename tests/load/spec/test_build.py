"""A tree becomes the model it describes: short forms, defaults, what layers share and inherit."""

import pytest

from archcli.load.source import load_text
from archcli.modules import GLU, MLP, GELUTanh, LayerNorm, NoPosition, PreNorm, Rope, SiLU

HEAD = "vocab_size: 100\nd_model: 64\nnorm: {kind: rmsnorm, eps: 1e-5}\n"
BASE = (
    "layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4, position: {kind: rope, theta: 500}}, "
    "ffn: {kind: mlp, d_ff: 8}}\n"
)


def model(text):
    return load_text(HEAD + text, "f").model


def layers(text):
    return [block for group in model(text).groups for block in group.blocks]


def test_a_model_is_what_python_would_make_of_it(tiny):
    loaded = load_text(tiny, "f").model
    assert loaded == type(loaded)(**{name: getattr(loaded, name) for name in loaded.fields})
    assert type(loaded.groups[0].layer) is PreNorm
    assert loaded.groups[0].layer.ffn == GLU(d_ff=128, activation=SiLU())
    assert loaded.groups[0].layer.attention.position == Rope(theta=500_000.0)
    assert type(loaded.groups[0].layer.attention.position.theta) is float


def test_a_bare_word_is_short_for_its_kind():
    [layer] = layers(BASE + "groups: [{n_layers: 1, layer: {ffn: {activation: gelu_tanh}}}]")
    assert layer.ffn == MLP(d_ff=8, activation=GELUTanh())


def test_a_layer_without_a_norm_has_the_models():
    first, second = layers(BASE + "groups: [{n_layers: 1}, {n_layers: 1, layer: {norm: layernorm}}]")
    assert first.norm is model(BASE + "groups: [{n_layers: 1}]").norm or first.norm.eps == 1e-5
    assert second.norm == LayerNorm()


def test_what_is_inherited_is_one_object():
    loaded = model(BASE + "groups: [{n_layers: 1}, {n_layers: 2}]")
    assert loaded.groups[0].layer.norm is loaded.norm
    assert loaded.groups[1].layer.norm is loaded.norm


def test_a_shared_layer_is_merged_key_by_key():
    narrow, wide = layers(
        BASE + "groups: [{n_layers: 1}, {n_layers: 1, layer: {attention: {window: 16}, ffn: {d_ff: 16}}}]"
    )
    assert (narrow.ffn.d_ff, narrow.attention.window) == (8, None)
    assert (wide.ffn.d_ff, wide.attention.window, wide.attention.position.theta) == (16, 16, 500.0)


def test_another_kind_replaces_the_shared_mapping_whole():
    [layer] = layers(
        BASE + "groups: [{n_layers: 1, layer: {attention: {position: none}, ffn: {kind: glu, d_ff: 9}}}]"
    )
    assert (layer.attention.position, layer.ffn) == (NoPosition(), GLU(d_ff=9))


def test_the_same_kind_does_not():
    [layer] = layers(
        BASE + "groups: [{n_layers: 1, layer: {attention: {position: {kind: rope, rotary_dim: 4}}}}]"
    )
    assert layer.attention.position == Rope(theta=500.0, rotary_dim=4)


def test_a_layer_beside_a_pattern_is_the_base_of_its_entries():
    local, full = layers(
        BASE + "groups: [{n_layers: 2, layer: {ffn: {d_ff: 9}}, pattern: [{attention: {window: 16}}, {}]}]"
    )
    assert (local.attention.window, full.attention.window) == (16, None)
    assert (local.ffn.d_ff, full.ffn.d_ff) == (9, 9)


def test_null_takes_a_shared_setting_back():
    [layer] = layers(
        BASE.replace("n_heads: 4", "n_heads: 4, window: 16")
        + "groups: [{n_layers: 1, layer: {attention: {window: null}}}]"
    )
    assert layer.attention.window is None


def test_a_mistake_in_a_shared_layer_is_answered_once(refused):
    text = (
        HEAD
        + BASE.replace("n_heads: 4", "n_heads: 0")
        + "groups: [{n_layers: 1}, {n_layers: 2}, {n_layers: 3}]"
    )
    assert refused(text) == ["4:57: n_heads must be a whole number above 0, not 0"]


def test_a_mistake_in_what_layers_inherit_is_answered_once(refused):
    text = HEAD.replace("1e-5", "0") + BASE + "groups: [{n_layers: 1}, {n_layers: 2}]"
    assert refused(text) == ["3:28: eps must be a number above 0, not 0"]


def test_aliases_stand_for_what_they_name():
    text = BASE + (
        "groups:\n  - {n_layers: 1, layer: {ffn: &wide {kind: glu, d_ff: 9}}}\n  - {n_layers: 2, "
        "layer: {ffn: *wide}}"
    )
    first, second = layers(text)
    assert first.ffn is second.ffn


def test_a_thousand_million_layers_are_a_number():
    assert model(BASE + "groups: [{n_layers: 1_000_000_000}]").groups[0].n_layers == 10**9


def test_markup_in_a_name_is_text():
    assert model("name: '[bold]x[/bold]'\n" + BASE + "groups: [{n_layers: 1}]").name == "[bold]x[/bold]"


@pytest.mark.parametrize(
    "change",
    [lambda text: text.replace("\n", "\r\n"), lambda text: text.replace("\n", "\r"), "\ufeff".__add__],
)
def test_line_endings_and_a_byte_order_mark_do_not_matter(change, tiny):
    assert load_text(change(tiny), "f").model == load_text(tiny, "f").model
