"""The parts of a layer as YAML and --set write them.

`mixer` for `attention`, and a network that is left out.
"""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.load.spec.written import to_mapping, to_yaml
from edits.kinds import SOFTMAX

HEAD = "vocab_size: 50\nd_model: 32\nnorm: {kind: rmsnorm, eps: 1e-5}\n"
MHA, LINEAR = "{kind: mha, n_heads: 4, window: 8}", "{kind: linear, n_heads: 4}"
FFN = "{kind: glu, d_ff: 48}"


def file(*layers, top=""):
    pattern = "".join(f"      - {layer}\n" for layer in layers)
    return f"{HEAD}{top}groups:\n  - n_layers: {len(layers)}\n    pattern:\n{pattern}"


def blocks(text, *overrides):
    return load_text(text, "f", overrides).model.groups[0].blocks


def keys(block):
    return [key for key in ("attention", "mixer", "ffn") if getattr(block, key) is not None]


@pytest.mark.parametrize("nothing", ["none", "null", "~", ""])
def test_a_network_is_left_out_by_a_word_too(nothing):
    block, _ = blocks(
        file(f"{{kind: pre_norm, attention: {MHA}, ffn: {nothing}}}", f"{{kind: pre_norm, ffn: {FFN}}}")
    )
    assert keys(block) == ["attention"]


@pytest.mark.parametrize("override", ["ffn=none", "ffn=null", "layer.ffn=none"])
def test_a_network_is_taken_away_by_an_override(override):
    text = file(f"{{kind: pre_norm, mixer: {MHA}, ffn: {FFN}}}")
    assert keys(*blocks(text, override)) == ["mixer"]


def test_the_key_that_is_written_stays():
    layers = f"{{kind: pre_norm, mixer: {LINEAR}}}", f"{{kind: pre_norm, attention: {MHA}}}"
    model = load_text(file(*layers), "f").model
    assert [keys(block) for block in model.groups[0].blocks] == [["mixer"], ["attention"]]
    assert load_text(to_yaml(model), "f").model == model
    assert [sorted({*layer} - {"kind"}) for layer in to_mapping(model)["groups"][0]["pattern"]] == [
        ["mixer"],
        ["attention"],
    ]


@pytest.mark.parametrize(("below", "above"), [("attention", "mixer"), ("mixer", "attention")])
def test_the_mixer_of_a_layer_takes_the_place_of_the_shared_one_under_either_key(below, above):
    text = file(
        f"{{{above}: {LINEAR}}}",
        f"{{{above}: {{window: 4}}}}",
        "{}",
        top=f"layer: {{kind: pre_norm, {below}: {MHA}, ffn: {FFN}}}\n",
    )
    one, two, three = blocks(text)
    assert [keys(block) for block in (one, two, three)] == [[above, "ffn"], [above, "ffn"], [below, "ffn"]]
    assert [block.mixing[1].kind for block in (one, two, three)] == ["linear", "mha", "mha"]
    assert [block.facts().window for block in (one, two, three)] == [None, 4, 8]


def test_an_override_reaches_the_mixer_by_its_key():
    (block,) = blocks(file(f"{{kind: pre_norm, mixer: {MHA}}}"), "mixer.window=3")
    assert block.facts().window == 3


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("mixer.window=4", "no path ends in 'mixer.window'"),
        (
            "groups.0.pattern.0.mixer.window=4",
            f"unknown key 'window'; a key of {SOFTMAX}, not of linear",
        ),
        ("attention=mha", "missing key n_heads"),
    ],
)
def test_an_override_of_what_a_mixer_has_not_is_refused_by_name(override, told):
    with pytest.raises(ArchError, match=told):
        blocks(file(f"{{kind: pre_norm, mixer: {LINEAR}}}"), override)
