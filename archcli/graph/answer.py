"""OpAnswer: what an operation says of its input shapes; asked once for equal operations and shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from archcli.arith import Shape
from archcli.graph.op import Op
from archcli.graph.part import Part
from archcli.graph.state import State

INTS = frozenset({int})
PLAIN = frozenset({bool, int, float, str, NoneType})


class OpAnswer(NamedTuple):
    """The shapes of an operation's outputs, its weights, cost and states.

    `many` says whether it returns a tuple of outputs, `grad` whether a gradient flows to them, `trained`
    whether its weights get one.
    """

    outputs: tuple[Shape, ...]
    many: bool
    weights: dict[str, Shape]
    parts: tuple[Part, ...]
    states: tuple[State, ...]
    grad: bool
    trained: bool


def key_of(op: Op, shapes: Sequence[Shape]) -> Hashable | None:
    """What the answer depends on: the operation's settings without its name, and the shapes.

    None where a size is no plain number: symbols, arrays and numbers known later are equal in ways of their
    own, and the hash of a number that stands for many candidates would leave one of them.
    """
    if not INTS.issuperset(map(type, chain.from_iterable(shapes))):
        return None
    settings = _settings(type(op))(op)
    return (type(op), settings, *shapes) if _is_plain(settings) else None


@cache
def _settings(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads the settings of an operation, mask or rotation as a tuple, without its name."""
    names = [field.name for field in fields(kind) if field.name != "name"]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _is_plain(settings: tuple[Any, ...]) -> bool:
    """Whether settings are plain numbers and words, or records of such."""
    return PLAIN.issuperset(map(type, settings)) or all(map(_is_plain_value, settings))


def _is_plain_value(value: Any) -> bool:
    kind: Any = type(value)  # mypy takes type[Any] for unhashable
    if kind is tuple:
        return _is_plain(value)
    return kind in PLAIN or (is_dataclass(value) and _is_plain(_settings(kind)(value)))


def needed(part: Part, grads: list[bool], *, trained: bool) -> Part:
    """Drop unneeded gradients: of inputs such as token ids, and of frozen weights."""
    kept = tuple(back for back in part.backward if _flows(back.wrt, grads, trained=trained))
    return part if len(kept) == len(part.backward) else replace(part, backward=kept)


def _flows(wrt: int | str | tuple[int, ...] | None, grads: list[bool], *, trained: bool) -> bool:
    """Whether a gradient flows to any of the inputs or weights that `wrt` names."""
    if isinstance(wrt, str):
        return trained
    if wrt is None:
        return trained or any(grads)
    return any(grads[i] for i in ((wrt,) if isinstance(wrt, int) else wrt))
