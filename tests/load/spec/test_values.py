"""What fields accept.

Worked out by hand for each kind of annotation, and as jsonschema judges the schema of every field there is.

jsonschema is laxer in one thing: 1.0 is a whole number to it, where archcli asks for 1.
"""

import math
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from archcli.load.spec.fields import fields
from archcli.load.spec.messages import hint
from archcli.load.yaml.nodes import Node, Place, Source
from archcli.modules.spec.base import Count, Positive, Share, Size
from archcli.modules.spec.values import Interval, Length, Refusal, value_type
from library import classes, load_every_module
from table import every_row

load_every_module()
PLACE = Place(Source("f", []), 0, 0)
VALUES = {
    f"{cls.__name__}.{name}": field
    for cls in classes()
    for name, field in fields(cls).items()
    if field.type is not None
}
SOME = [
    "0",
    0,
    1,
    2,
    -1,
    4096,
    0.0,
    1.0,
    0.5,
    -0.5,
    1e300,
    10**30,
    True,
    False,
    None,
    "",
    "q",
    "half",
    "sqrt_d_model",
    math.nan,
    math.inf,
]
SCALARS = st.sampled_from(SOME) | st.integers() | st.floats() | st.text(max_size=5)
ANY = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


class Reading(TypedDict):
    """A record."""

    place: str
    celsius: NotRequired[float]


# annotation: (what is accepted, what is not)
ACCEPTED = {
    "int": (int, [0, -1, 10**30], [True, 1.0, "1", None, [1], math.nan]),
    "size": (Size, [1, 4096], [0, -1, True, 1.0, None]),
    "count": (Count, [0, 1], [-1, False, 0.0]),
    "float": (float, [0.5, -0.5, 1e300], [True, "0.5", None, math.nan, math.inf]),
    "positive": (Positive, [0.5], [0.0, -0.5, math.inf]),
    "share": (Share, [0.0, 0.5], [1.0, -0.5]),
    "at most": (Annotated[float, Interval(gt=0, le=1)], [0.5, 1.0], [0.0, 1.5]),
    "bool": (bool, [True, False], [0, 1, "true", None]),
    "text": (str, ["", "q"], [1, True, None, ["q"]]),
    "nullable": (Size | None, [1, None], [0, True, "null"]),
    "one word": (Literal["q"], ["q"], ["k", 1, None]),
    "one number": (Literal[0, 1], [0, 1], [2, True, False, 1.0, "1"]),
    "either": (bool | tuple[Literal["q", "k"], ...], [True, (), ("q", "k")], ["q", ("x",), 1, None]),
    "a size or a word": (Size | Literal["row"] | None, [3, "row", None], [0, "rows", True]),
    "many": (tuple[Positive, ...], [(), (0.5, 2.0)], [0.5, (0.0,), ("a",), None, {}]),
    "a pair": (Annotated[list[float], Length(2, 2)], [[0.5, 1.0]], [[], [0.5], [0.5, 1.0, 2.0], (1.0,)]),
    "by name": (dict[str, int], [{}, {"a": 1}], [{"a": 1.0}, {1: 1}, [], None]),
    "a record": (
        Reading,
        [{"place": "x"}, {"place": "x", "celsius": 0.5}],
        [{}, {"place": 1}, {"place": "x", "celsius": "0"}, {"place": "x", "kelvin": 1}, None],
    ),
}


def node(value):
    if isinstance(value, list):
        value = [node(item) for item in value]
    elif isinstance(value, dict):
        value = {key: node(item) for key, item in value.items()}
    return Node(value, PLACE)


def accepts(field_type, value):
    try:
        field_type.convert(value)
    except Refusal:
        return False
    return True


@every_row(("annotation", "taken", "refused"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_annotation_accepts(annotation, taken, refused):
    accepted = value_type(annotation)
    for value in taken:
        assert (type(accepted.convert(value)), accepted.convert(value)) == (type(value), value)
    assert [value for value in refused if accepts(accepted, value)] == []


def test_a_whole_number_becomes_a_float_and_a_list_a_tuple():
    assert repr(value_type(tuple[Positive, ...]).convert([1, 2])) == "(1.0, 2.0)"


@pytest.mark.parametrize("annotation", [set[int], tuple[int, int], complex, dict[int, str]], ids=str)
def test_an_annotation_that_nobody_reads_is_an_error_of_the_class(annotation):
    with pytest.raises(TypeError, match="no annotation of a field"):
        value_type(annotation)


@pytest.mark.long
@every_row("field", VALUES.values(), ids=VALUES)
def test_every_field_agrees_with_its_schema_on_telling_values(field):
    judge = Draft202012Validator(field.type.schema)
    for value in [*SOME, ["q"], ["q", "v"], ["x"], [1.0], [0], {"params": 3}, {"params": 3.5}, [], {}]:
        entry = value[0] if isinstance(value, list) and value else value
        if isinstance(entry, float) and (not math.isfinite(entry) or entry.is_integer()):
            continue  # the first are not JSON, the second whole numbers of it
        assert accepts(field.type, value) is judge.is_valid(value), value


@pytest.mark.long
@given(st.sampled_from(sorted(VALUES)), ANY)
@example("RMSNorm.offset", True)
def test_every_refusal_has_its_words(key, value):
    field = VALUES[key]
    if not accepts(field.type, value):
        with pytest.raises(Refusal) as caught:
            field.type.convert(value)
        assert caught.value.reason().startswith("must ")
        assert isinstance(hint(node(value), field.type), str)
