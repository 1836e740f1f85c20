"""Modules of other people load, are checked and are overridden like the library's own."""

from typing import Annotated, ClassVar, Literal

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.spec.build import build
from archcli.load.spec.overrides import apply
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from archcli.modules import Model
from archcli.modules.spec import kinds
from archcli.modules.spec.base import Conflict, Inherit, Size, Spec
from archcli.modules.spec.values import Length


class Part(Spec):
    """Values, one of them the model's."""

    colours: tuple[Literal["red", "blue"], ...] = ()
    even: Size = 2
    width: Annotated[Size, Inherit("d_model")]

    def check(self):
        if self.even > self.width:
            yield Conflict("even", "even", "even is more than width")


class Pair(Spec):
    """Fields that are judged side by side."""

    low: int = 1
    high: int = 2

    def check(self):
        if self.low > self.high:
            yield Conflict("order", "low", "low must not be above high")


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
    parts: Annotated[tuple[Part, ...], Length(least=1)]
    pair: Pair = Pair()
    dye: Tint = Dye()


@pytest.fixture
def built(monkeypatch):
    """The toy that has this part: built("{even: 4}", "pair: {low: 0}")."""
    monkeypatch.setattr(kinds, "registered", {})
    archcli.register("toy", f"{__name__}:Toy")
    archcli.register("dye", f"{__name__}:Dye")

    def toy(part, rest="pair: {}", *overrides):
        text = f"{{kind: toy, d_model: 4, parts: [{part}], {rest}, vocab_size: 8, norm: rmsnorm}}"
        return build(apply(parse(text_of(text, "f")).root, overrides, []))

    return toy


def test_values_defaults_and_what_is_inherited(built):
    assert built("{colours: [red], even: 4}").parts == (Part(colours=("red",), even=4, width=4),)


def test_a_bare_override_reaches_a_default_that_is_not_written(built):
    assert built("{}", "pair: {}", "strength=3").dye == Dye(strength=3)


MISTAKES = {
    "a list": ("{colours: 3}", "f:1:43: colours must be a list, each red or blue, not 3"),
    "below": ("{colours: [rad]}", 'f:1:44: colours.0 must be red or blue, not "rad"; did you mean red?'),
    "by its check": ("{even: 8}", "f:1:40: even is more than width"),
    "a number": ("{even: 8.0}", "f:1:40: even must be a whole number above 0, not 8.0; write 8"),
}


@pytest.mark.parametrize(("part", "answer"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_them_is_answered(part, answer, built):
    with pytest.raises(ArchError) as caught:
        built(part)
    assert [str(problem) for problem in caught.value.problems] == [answer]


def test_their_own_check_speaks(built):
    with pytest.raises(ArchError, match="low must not be above high"):
        built("{}", "pair: {low: 3}")
