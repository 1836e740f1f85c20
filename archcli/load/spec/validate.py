"""What a field's annotation accepts, and how that is said: "a whole number above 0", "half or interleaved".

Every annotation the modules use is understood here, without building a pydantic schema: validating a preset costs microseconds, where the
schemas of all classes cost some 20 ms at each start. Any other annotation is handed to pydantic. A test holds the two to the same verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from archcli.load.yaml.nodes import Node, plain, shown
from archcli.load.yaml.scalars import OLD_BOOLEANS, resolve
from archcli.wording import closest, either, written


class Refusal(Exception):  # noqa: N818
    """A node that is not what was wanted, at `path` below the field."""

    def __init__(self, node: Node, words: str, path: str = "") -> None:
        super().__init__()
        self.node, self.words, self.path = node, words, path


class Want(NamedTuple):
    """`take` turns a node into the field's value or raises Refusal; `words` say what it takes; `choices` are the words it knows."""

    words: str
    take: Callable[[Node], Any]
    choices: tuple[Any, ...] = ()


def want(annotation: Any, metadata: Iterable[Any] = ()) -> Want:
    """What values of this annotation look like; `metadata` are the bounds pydantic has taken off it."""
    while get_origin(annotation) is Annotated:
        annotation, *inner = get_args(annotation)
        metadata = [*metadata, *inner]
    bounds = [bound for entry in metadata for bound in getattr(entry, "metadata", [entry])]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _union([want(arg, bounds) for arg in args if arg is not NoneType], nullable=NoneType in args)
    if origin is Literal:
        return _literal(args)
    if origin is tuple and args[1:] == (...,):
        return _many(want(args[0]))
    if origin is dict and args[0] is str:
        return _named(want(args[1]))
    simple = SIMPLE.get(annotation)
    return _by_pydantic(annotation, bounds) if simple is None else simple(bounds)


def hint(refused: Refusal, wanted: Want) -> str:
    """How to mend the commonest slips: 4096.0 and "4096" for 4096, yes for true, a word misspelled; empty where there is no guess."""
    node, value = refused.node, refused.node.value
    if (
        isinstance(value, float)
        and math.isfinite(value)
        and value == int(value)
        and _takes(wanted, int(value), node)
    ):
        return f"write {int(value)}"
    if isinstance(value, int | float) and _takes(wanted, node.text, node):
        return "put it in quotes"
    if value is not None and _takes(wanted, [node], node):
        return f"write [{written(value)}]"
    return _hint_on_text(node, wanted) if isinstance(value, str) else ""


def _hint_on_text(node: Node, wanted: Want) -> str:
    text = node.value
    try:
        meant = resolve(OLD_BOOLEANS.get(text.lower(), text.replace(",", "")) or "~")
    except OverflowError:
        return ""
    if text.lower() in OLD_BOOLEANS and _takes(wanted, meant, node):
        return f"write {written(meant)}"
    if not isinstance(meant, str) and _takes(wanted, meant, node):
        return "drop the quotes" if not node.text else f"write {written(meant)}"
    if text[:-1].isdecimal() and text[-1] in "kK" and len(text) < len(str(1 << 64)):
        return f"write {int(text[:-1]) * (1000 if text[-1] == 'k' else 1024)}"
    close = closest(text, [choice for choice in wanted.choices if isinstance(choice, str)])
    return f"did you mean {either(close)}?" if close else ""


def _takes(wanted: Want, value: Any, node: Node) -> bool:
    try:
        wanted.take(node.holding(value))
    except Refusal:
        return False
    return True


def _taking(
    words: str, accepts: Callable[[Any], bool], convert: Callable[[Any], Any] = lambda value: value
) -> Want:
    def take(node: Node) -> Any:
        if not accepts(node.value):
            raise Refusal(node, words)
        return convert(node.value)

    return Want(words, take)


def _whole(bounds: list[Any]) -> Want:
    return _taking(
        "a whole number" + _limits(bounds), lambda value: type(value) is int and _within(value, bounds)
    )


def _real(bounds: list[Any]) -> Want:
    def accepts(value: Any) -> bool:
        return type(value) in (int, float) and math.isfinite(value) and _within(value, bounds)

    return _taking("a number" + _limits(bounds), accepts, float)


LIMITS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
WITHIN: dict[str, Callable[[float, float], bool]] = {"gt": gt, "ge": ge, "lt": lt, "le": le}


def _limits(bounds: list[Any]) -> str:
    found = [
        f" {words} {getattr(bound, name)}"
        for bound in bounds
        for name, words in LIMITS.items()
        if hasattr(bound, name)
    ]
    return " and".join(found)


def _within(value: float, bounds: list[Any]) -> bool:
    return all(
        test(value, getattr(bound, name))
        for bound in bounds
        for name, test in WITHIN.items()
        if hasattr(bound, name)
    )


def _literal(choices: tuple[Any, ...]) -> Want:
    words = either([str(choice) for choice in choices])
    accepted = {(type(choice), choice) for choice in choices}
    wanted = _taking(words, lambda value: isinstance(value, str | int) and (type(value), value) in accepted)
    return Want(words, wanted.take, choices)


def _many(item: Want) -> Want:
    words = f"a list, each {item.words}"

    def take(node: Node) -> tuple[Any, ...]:
        if not isinstance(node.value, list):
            raise Refusal(node, words)
        return tuple(_below(item, str(i), inner) for i, inner in enumerate(node.value))

    return Want(words, take, item.choices)


def _named(item: Want) -> Want:
    words = f"a mapping, each value {item.words}"

    def take(node: Node) -> dict[str, Any]:
        if not isinstance(node.value, dict):
            raise Refusal(node, words)
        return {key: _below(item, key, inner) for key, inner in node.value.items()}

    return Want(words, take)


def _below(item: Want, step: str, node: Node) -> Any:
    try:
        return item.take(node)
    except Refusal as refused:
        refused.path = f".{step}{refused.path}"
        raise


def _union(arms: list[Want], *, nullable: bool) -> Want:
    words = ", or ".join(arm.words for arm in arms)

    def take(node: Node) -> Any:
        if nullable and node.value is None:
            return None
        for arm in arms:
            try:
                return arm.take(node)
            except Refusal as refused:
                if refused.path or len(arms) == 1:
                    raise
        raise Refusal(node, words)

    return Want(words, take, tuple(choice for arm in arms for choice in arm.choices))


def _by_pydantic(annotation: Any, metadata: list[Any]) -> Want:
    """JSON mode, where strictness still lets a list be a tuple or a set."""
    import json

    from pydantic import ConfigDict, TypeAdapter, ValidationError

    config = (
        None
        if isinstance(annotation, type) and hasattr(annotation, "model_config")
        else ConfigDict(strict=True, allow_inf_nan=False)
    )
    adapter: Any = TypeAdapter(Annotated[annotation, *metadata] if metadata else annotation, config=config)

    def take(node: Node) -> Any:
        try:
            return adapter.validate_json(json.dumps(plain(node)))
        except ValidationError as error:
            raise Refusal(node, _said(error.errors()[0]["msg"])) from None

    return Want("", take)


def _said(message: str) -> str:
    """Pydantic's words, to follow "must be"."""
    must_be = "Input should be "
    return message.removeprefix(must_be) if message.startswith(must_be) else f"valid ({message})"


def _switch(_: list[Any]) -> Want:
    return _taking("true or false", lambda value: isinstance(value, bool))


def _text(_: list[Any]) -> Want:
    return _taking("text", lambda value: isinstance(value, str))


SIMPLE: dict[Any, Callable[[list[Any]], Want]] = {int: _whole, float: _real, bool: _switch, str: _text}


def refusal_words(refused: Refusal, field: str) -> str:
    """`d_ff must be a whole number above 0, not true`."""
    return f"{field}{refused.path} must be {refused.words}, not {shown(refused.node)}"
