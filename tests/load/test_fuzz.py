"""Whatever is loaded, the answer is a model or an ArchError that can be drawn.

Nothing else ever comes out.
"""

import re

from hypothesis import given
from hypothesis import strategies as st

from archcli.errors import ArchError
from archcli.load.presets import preset_text, presets
from archcli.load.source import load_text
from archcli.load.spec.written import to_yaml
from archcli.load.yaml.text import decode
from archcli.render.findings import explain

PRESETS = st.sampled_from(presets()).map(preset_text)
SIGNS = ["\n", "\n  ", "\t", "- ", "? ", "#", "&a ", "*a", "!t ", "---\n", "...", "<<: ", *":{}[],|>'\"%"]
ODD = ["\x00", "\x1b", "\u2028", "\ufeff", "\ud800", "😀"]
WORDS = [*SIGNS, *ODD, *["kind", "norm", "groups", "layer", "pattern", "null", "true", "-1", "1e999", ".nan"]]
KEYS = [
    "d_ff",
    "kind",
    "groups.0.layer",
    "groups.0.pattern.0",
    "norm",
    "embedding.position",
    "layer.ffn",
    "groups",
    "name",
    "a.b",
]
VALUES = [
    "3",
    "8K",
    "null",
    "{}",
    "[]",
    "{kind: mla}",
    "mlp",
    "[{}]",
    "*a",
    "1.5",
    "'",
    "{d_ff: {a: 1}}",
    "",
    "=",
    "\x07",
]


def answered(text, *overrides):
    """The model, or None where the text was refused in words that can be drawn."""
    try:
        return load_text(text, "f", overrides).model
    except ArchError as error:
        drawn = explain(error)
    assert drawn.replace("\n", "").isprintable()
    assert "error: " in drawn
    return None


@given(st.text())
def test_any_text(text):
    answered(text)


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3)).map("".join))
def test_any_text_that_looks_like_yaml(text):
    answered(text)


@given(st.binary())
def test_any_bytes(data):
    try:
        text = decode(data, "f")
    except ArchError:
        return
    answered(text)


@given(PRESETS, st.data())
def test_a_preset_with_a_stretch_replaced(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = start + data.draw(st.integers(0, 20))
    model = answered(text[:start] + data.draw(st.sampled_from(WORDS) | st.text(max_size=5)) + text[end:])
    assert model is None or load_text(to_yaml(model), "f").model == model


@given(PRESETS, st.data())
def test_a_preset_with_its_words_mixed(text, data):
    words = re.split(r"(\w+)", text)
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
        words[i], words[j] = words[j], words[i]
    model = answered("".join(words))
    assert model is None or load_text(to_yaml(model), "f").model == model


@given(
    PRESETS,
    st.lists(
        st.builds("{}={}".format, st.sampled_from(KEYS) | st.text(max_size=5), st.sampled_from(VALUES)),
        max_size=3,
    ),
)
def test_a_preset_with_overrides(text, overrides):
    model = answered(text, *overrides)
    assert model is None or load_text(to_yaml(model), "f").model == model
