"""Where the keys of a config.json stand in its text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archcli.load.huggingface.config_json import object_places, read_config
from archcli.load.yaml.nodes import Source
from archcli.load.yaml.text import text_of

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@pytest.mark.long
@given(st.dictionaries(st.text(), VALUES, max_size=5), st.sampled_from([None, 0, 1, "\t"]), st.booleans())
def test_every_key_has_the_place_of_its_value(data, indent, ascii_only):
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    lines = text.split("\n")
    places = object_places(Source("f", lines), text, 0)
    assert places.places.keys() == data.keys()
    for key, value in data.items():
        place, written = places.place(key), json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        start = written.split("\n")[0]
        assert lines[place.line][place.column :].startswith(start)
        assert place.width >= len(start)
        if isinstance(value, dict):
            assert places.inner(key).places.keys() == value.keys()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"model_type": "x", "a": 7}', "f:1:26"),
        ('\ufeff\n {"model_type": "x",\r\n\t"a"\r\n :\t7 }', "f:4:4"),
        ('{"b": "\\"a\\": 3", "c": {"a": 3}, "a": 7, "model_type": ""}', "f:1:39"),
    ],
    ids=["one-line", "ends-of-lines", "in-texts-and-objects"],
)
def test_a_value_is_where_its_file_says_it(text, place):
    config = read_config(text_of(text, "f"))
    assert config.data["a"] == 7
    assert str(config.places.place("a").mark()) == place


def test_the_objects_inside_have_places_of_their_own():
    config = read_config(text_of('{"model_type": "x",\n "a": {"b": {"c": 1}}, "d": [2]}', "f"))
    inner = config.places.inner("a").inner("b")
    assert str(inner.place("c").mark()) == "f:2:19"
    assert config.places.inner("d").places == config.places.inner("e").places == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"a": 1, "model_type": "x", "\\u0061": 7}',
            "1:29: key 'a' is stated twice",
        ),
        (
            '{"model_type": "x",\n "b": {"c": "{\\"c\\":", "d": [{"c": 1}],\n  "c" : 2}}',
            "3:3: key 'c' is stated twice",
        ),
    ],
    ids=["escaped", "in-an-object"],
)
def test_a_key_stated_twice_is_refused_where_it_is_stated_again(text, said, refused):
    assert refused(text) == [f"{said}; leave one of the two out"]
