"""The loader's own judgement of values agrees with pydantic's, field by field, on every class there is.

It is stricter in one thing: a choice of whole numbers (offset: 0 or 1) takes neither true nor 1.0, which pydantic lets pass for 1.
"""

import math
from typing import Annotated

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from archcli.load.spec.fields import fields
from archcli.load.spec.validate import Refusal, hint, refusal_words
from archcli.load.yaml.nodes import Node, Place, Source
from library import classes, load_every_module

load_every_module()
PLACE = Place(Source("f", []), 0, 0)


VALUES = {
    f"{cls.__name__}.{name}": (cls, field)
    for cls in classes()
    for name, field in fields(cls).items()
    if field.want is not None
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


def node(value):
    if isinstance(value, list):
        value = [node(item) for item in value]
    elif isinstance(value, dict):
        value = {key: node(item) for key, item in value.items()}
    return Node(value, PLACE)


def by_us(field, value):
    try:
        return field.want.take(node(value))
    except Refusal:
        return Refusal


def by_pydantic(adapter, value):
    try:
        return adapter.validate_python(tuple(value) if isinstance(value, list) else value)
    except ValidationError:
        return Refusal


def adapter_of(cls, name):
    info = cls.model_fields[name]
    annotation = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return TypeAdapter(annotation, config=cls.model_config)


@pytest.mark.parametrize(("cls", "field"), VALUES.values(), ids=VALUES)
def test_every_field_agrees_with_pydantic_on_telling_values(cls, field):
    adapter = adapter_of(cls, field.name)
    for value in [*SOME, ["q"], ["q", "v"], ["x"], [1.0], [0], {"params": 3}, {"params": 3.0}, [], {}]:
        if value in field.want.choices and type(value) in (bool, float):
            assert by_us(field, value) is Refusal
            continue
        ours, theirs = by_us(field, value), by_pydantic(adapter, value)
        assert (type(ours), ours) == (type(theirs), theirs), value


@given(st.sampled_from(sorted(VALUES)), ANY)
@example("RMSNorm.offset", True)
def test_every_refusal_has_its_words(key, value):
    _, field = VALUES[key]
    if by_us(field, value) is Refusal:
        with pytest.raises(Refusal) as caught:
            field.want.take(node(value))
        assert refusal_words(caught.value, field.name).startswith(field.name)
        assert isinstance(hint(caught.value, field.want), str)
