"""The values of options, read from text, and their types on a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from archcli.api.asking.question import Option
from archcli.errors import ArchError, quote
from archcli.modules.spec.calls import accept
from archcli.modules.spec.values import ValueType, bare, value_type
from archcli.render.write import tell
from archcli.units import bytes_note, parse_bytes, parse_count, tokens_note

READ: dict[str, type] = {
    **dict.fromkeys(("count", "tokens", "bytes"), int),
    "number": float,
    "text": str,
    "picture": Path,
}
"""The type of a text's value, by `option.reads`."""


def line_type(annotation: Any, option: Option) -> Any:
    """The type of a field's values on the command line: a list is an option that may be repeated."""
    kind = bare(annotation)
    arms = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if option.reads:
        kind = READ[option.reads]
        return kind | None if NoneType in arms else kind
    if get_origin(kind) is Sequence or Sequence[str] in arms:
        item: Any = Path if Path in get_args(kind) else str
        return list[item] | None
    return kind


def reader(name: str, option: Option, annotation: Any) -> Callable[[object], Any]:
    """The function that reads a field's text as `option.reads` says; it raises ArchError."""
    return partial(_read, name=name, how=option.reads, known=value_type(annotation))


def picture_file(text: object) -> Path:
    """Parse the file of a picture; ArchError, before anything is counted, where it could not be written."""
    from archcli.render.picture.files import check_picture

    check_picture(Path(str(text)))
    return Path(str(text))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArchError(f"{quote(text)} is no number") from None


def _read(text: object, name: str, how: str, known: ValueType) -> Any:
    """The value of a text. Raises ArchError for one that the field does not take."""
    # a default is read, too, and may be a number
    written = str(text)
    value: Any = written
    if how == "bytes":
        value = parse_bytes(written)
    elif how == "number":
        value = _number(written)
    elif how != "text":
        value = parse_count(written)
    value = accept(name, value, {name: known})
    note = {"tokens": tokens_note, "bytes": bytes_note}.get(how)
    if note is not None and (said := note(written)):
        tell(f"note: {said}")
    return value
