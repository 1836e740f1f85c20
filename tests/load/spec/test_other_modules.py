"""Modules of other people, with fields and validators that the core library has none of, load and are answered like our own."""

from enum import Enum
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field, field_validator, model_validator

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.load.spec.build import build
from archcli.load.spec.overrides import apply
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from archcli.modules import Model, kinds
from archcli.modules.base import Inherit, Size, Spec


class Colour(Enum):
    RED = "red"


class Part(Spec):
    """Fields that pydantic judges."""

    pair: tuple[int, int] = (1, 2)
    colours: frozenset[Colour] = frozenset()
    even: Size = 2
    width: Annotated[Size, Inherit("d_model")]

    @field_validator("even")
    @classmethod
    def _even(cls, value):
        if value % 2:
            raise ValueError("even must be even")
        return value

    def check(self):
        if self.even > self.width:
            yield "even", "even is more than width", ""


class Pair(Spec):
    """Fields that a validator of its own compares."""

    low: int = 1
    high: int = 2

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


class Tint(Spec):
    """A family."""

    family: ClassVar[str] = "tints"


class Dye(Tint):
    """The tint of a toy that states none."""

    kind: Literal["dye"] = "dye"
    strength: int = 1


class Toy(Model):
    """A model of another kind."""

    kind: Literal["toy"] = "toy"
    parts: Annotated[tuple[Part, ...], Field(min_length=1)]
    pair: Pair = Field(default_factory=Pair)
    dye: Tint = Field(default_factory=Dye)

    def forward(self, x):
        return x


@pytest.fixture
def built(monkeypatch):
    """The toy that has this part: built("{even: 4}", "pair: {low: 0}")."""
    monkeypatch.setattr(kinds, "registered", {})
    archcli.register("toy", f"{__name__}:Toy")
    archcli.register("dye", f"{__name__}:Dye")

    def toy(part, rest="pair: {}", *overrides):
        root = parse(
            text_of(f"{{kind: toy, d_model: 4, parts: [{part}], {rest}, vocab_size: 8, norm: rmsnorm}}", "f")
        ).root
        return build(apply(root, overrides, []))

    return toy


def test_a_file_holds_a_model(built):
    with pytest.raises(ArchError, match="f: a Toy cannot be counted or checked"):
        load_text("{kind: toy, d_model: 4, parts: [{}]}", "f")


def test_what_the_loader_does_not_know_pydantic_judges(built):
    part = built("{pair: [3, 4], colours: [red], even: 4}").parts[0]
    assert part == Part(pair=(3, 4), colours=frozenset([Colour.RED]), even=4, width=4)


def test_a_validator_of_the_whole_is_heard(built):
    with pytest.raises(ArchError, match="low must not be above high"):
        built("{}", "pair: {low: 3}")


def test_a_bare_override_reaches_a_default_that_is_not_written(built):
    assert built("{}", "pair: {}", "strength=3").dye == Dye(strength=3)


MISTAKES = {
    "by-pydantic": ("{pair: 3}", "f:1:40: pair must be a valid array, not 3"),
    "by-pydantic-below": ("{pair: [1]}", "f:1:34: pair must be valid (Field required), not a list"),
    "by-its-validator": ("{even: 3}", "f:1:40: Value error, even must be even"),
    "by-its-check": ("{even: 8}", "f:1:40: even is more than width"),
    "by-us": ("{even: 8.0}", "f:1:40: even must be a whole number above 0, not 8.0; write 8"),
}


@pytest.mark.parametrize(("part", "answer"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_them_is_answered(part, answer, built):
    with pytest.raises(ArchError) as caught:
        built(part)
    assert [str(problem) for problem in caught.value.problems] == [answer]
