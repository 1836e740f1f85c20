"""The values that a type annotation accepts: description, conversion and JSON Schema.

Accepted are int, float, bool, str, None, Literal, unions, tuples and lists of any length, dicts by name, and
TypedDicts. `Annotated` adds bounds, lengths and meanings, or a conversion. Nothing is coerced
but a whole number to a float.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import ge, gt, index, le, lt, or_
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from archcli.arith import Number
from archcli.errors import ArchError, Problem, describe_argument, describe_value, either

Json = dict[str, Any]
NULL: Json = {"type": "null"}


class Interval(NamedTuple):
    """The numbers that are accepted: above `gt`, at least `ge`, below `lt`, at most `le`."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None


AboveZero = Annotated[int, Interval(gt=0)]
ZeroOrMore = Annotated[int, Interval(ge=0)]
# sizes of a request and of memory, which may be symbols or arrays, too: see `check_values`
SizeAboveZero = Annotated[Number, Interval(gt=0)]
SizeFromZero = Annotated[Number, Interval(ge=0)]


class Length(NamedTuple):
    """How many entries a list may have."""

    least: int = 0
    most: int | None = None


class Conversion(NamedTuple):
    """What a value is called, and how it is converted, where the type alone does not say it: 80GiB.

    `choices` are the texts that it comes to, where they are few; a dict in an annotation could not be hashed.
    """

    phrase: str
    convert: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


class Advice(NamedTuple):
    """What to do instead where a field refuses a value."""

    text: str


class Meaning(NamedTuple):
    """What a key of a TypedDict means, and in which unit."""

    text: str


NOTHING: Any = object()
MOST_DIGITS = 40
"""The most digits of a whole number: counts multiply several, and Python prints up to 4,300 digits."""


class Refusal(Exception):  # noqa: N818
    """Why a value is not accepted, "must be a number", and at which `path` below the field."""

    def __init__(self, what: str, path: str = "", value: Any = NOTHING) -> None:
        super().__init__()
        self.what, self.path, self.value = what, path, value

    def reason(self, shown: str = "") -> str:
        """The message: what is expected, and the value given, as written if known."""
        if self.value is NOTHING:
            return self.what
        return f"{self.what}, not {shown or describe_value(self.value)}"

    def of_argument(self) -> str:
        """The message in Python's words, for an argument of a call."""
        what = self.what.replace("true or false", "True or False").replace("a mapping", "a dict")
        return what if self.value is NOTHING else f"{what}, not {describe_argument(self.value)}"


class ValueType(NamedTuple):
    """The values that an annotation accepts.

    `phrase` describes them, `convert` returns a value or raises Refusal, `choices` are the words it knows.
    """

    phrase: str
    convert: Callable[[Any], Any]
    schema: Json
    choices: tuple[Any, ...] = ()


def value_type(annotation: Any) -> ValueType:
    """The value type of an annotation; TypeError for an unsupported one."""
    hint, metadata = unwrapped(annotation)
    conversion = next((entry for entry in metadata if isinstance(entry, Conversion)), None)
    return _of_type(hint, metadata) if conversion is None else _converting(conversion)


def _converting(conversion: Conversion) -> ValueType:
    schema: Json = {"enum": [*conversion.choices], "type": "string"} if conversion.choices else {}
    return ValueType(conversion.phrase, conversion.convert, schema)


def _of_type(hint: Any, metadata: list[Any]) -> ValueType:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        # bounds beside a union are those of every arm
        return _union([value_type(Annotated[arg, *metadata] if metadata else arg) for arg in args])
    if origin is Literal:
        return _literal(args)
    if origin in (tuple, list, Sequence) and args[1:] in ((...,), ()):
        kind = list if origin is list else tuple
        return _list_type(value_type(args[0]), kind, _only(metadata, Length))
    if origin in (dict, Mapping) and args[0] is str:
        return _named(value_type(args[1]))
    if is_typeddict(hint):
        return _record(hint)
    if hint not in SIMPLE:
        raise TypeError(
            f"{hint} is no annotation of a field: archcli/modules/spec/values.py lists those there are"
        )
    return SIMPLE[hint](_only(metadata, Interval))


def unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """(the bare type, its metadata) of an `Annotated` or similar annotation."""
    metadata: list[Any] = []
    while hasattr(annotation, "__metadata__"):
        metadata, annotation = [*annotation.__metadata__, *metadata], annotation.__origin__
    return annotation, metadata


def bare(annotation: Any) -> Any:
    """A type without the metadata of it and of its arms: `int | None` of `AboveZero | None`."""
    hint, _ = unwrapped(annotation)
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return reduce(or_, map(bare, get_args(hint)))


def _only(metadata: Iterable[Any], cls: type[Any]) -> Any:
    """The metadata item of a class, or its default instance."""
    return next((entry for entry in metadata if isinstance(entry, cls)), cls())


def refused(value: Any, phrase: str) -> Refusal:
    """The refusal of a value, with what is expected instead."""
    return Refusal(f"must be {phrase}", value=value)


def _scalar_type(phrase: str, schema: Json, accepts: Callable[[Any], bool], convert: Any = None) -> ValueType:
    def take(value: Any) -> Any:
        if not accepts(value):
            raise refused(value, phrase)
        return convert(value) if convert else value

    return ValueType(phrase, take, schema)


def _plain_number(value: Any) -> Any:
    """The int or float that a number of another library such as numpy is; any other value as it is."""
    # a bool has __index__, and true would pass as 1
    if isinstance(value, bool):
        return value
    # numpy.float64 is a float, too, but prints its type
    if isinstance(value, float):
        return float(value)
    try:
        whole = index(value)
    except TypeError:
        return value
    if abs(whole) >= 10**MOST_DIGITS:
        raise Refusal(f"must have at most {MOST_DIGITS} digits")
    return whole


WORDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
KEYWORDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
TESTS: dict[str, Callable[[Any, Any], bool]] = {"gt": gt, "ge": ge, "lt": lt, "le": le}


def _number(
    name: str, phrase: str, types: tuple[type, ...], convert: Any = None
) -> Callable[[Interval], ValueType]:
    def bounded(bounds: Interval) -> ValueType:
        limits = {key: limit for key, limit in bounds._asdict().items() if limit is not None}
        schema = {"type": name} | {KEYWORDS[key]: limit for key, limit in limits.items()}

        def accepts(value: Any) -> bool:
            if type(value) not in types or not (isinstance(value, int) or math.isfinite(value)):
                return False
            return all(TESTS[key](value, limit) for key, limit in limits.items())

        said = [f" {WORDS[key]} {limit}" for key, limit in limits.items()]
        accepted = _scalar_type(phrase + " and".join(said), schema, accepts, convert)
        return accepted._replace(convert=lambda value: accepted.convert(_plain_number(value)))

    return bounded


SIMPLE: dict[Any, Callable[[Interval], ValueType]] = {
    Number: _number("integer", "a whole number", (int,)),
    int: _number("integer", "a whole number", (int,)),
    float: _number("number", "a number", (int, float), float),
    bool: lambda _: _scalar_type("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool)),
    str: lambda _: _scalar_type("text", {"type": "string"}, lambda value: isinstance(value, str)),
    NoneType: lambda _: _scalar_type("null", NULL, lambda value: value is None),
}


def _literal(choices: tuple[Any, ...]) -> ValueType:
    # with the type, as 1 == True
    accepted = {(type(choice), choice) for choice in choices}
    named = {"const": choices[0]} if len(choices) == 1 else {"enum": list(choices)}
    name = "string" if all(isinstance(choice, str) for choice in choices) else "integer"

    def accepts(value: Any) -> bool:
        kind = str if isinstance(value, str) else type(value)
        return isinstance(value, str | int) and (kind, value) in accepted

    phrase = either([str(choice) for choice in choices])
    return _scalar_type(phrase, {**named, "type": name}, accepts)._replace(choices=choices)


def _list_type(item: ValueType, of: type, length: Length) -> ValueType:
    phrase = f"a list, each {item.phrase}"
    limits = {"minItems": length.least or None, "maxItems": length.most}
    schema: Json = {"type": "array", "items": item.schema}
    schema |= {key: limit for key, limit in limits.items() if limit is not None}

    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise refused(value, phrase)
        if len(value) < length.least or len(value) > (length.most or math.inf):
            raise Refusal(f"must not have {len(value)} entries" if value else "must not be empty")
        return of(_convert_item(item, str(i), entry) for i, entry in enumerate(value))

    return ValueType(phrase, convert, schema, item.choices)


def _named(item: ValueType) -> ValueType:
    phrase = f"a mapping, each value {item.phrase}"

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise refused(value, phrase)
        return {key: _convert_item(item, key, entry) for key, entry in value.items()}

    return ValueType(phrase, convert, {"type": "object", "additionalProperties": item.schema})


def _convert_item(item: ValueType, step: str, value: Any) -> Any:
    try:
        return item.convert(value)
    except Refusal as refusal:
        refusal.path = f".{step}{refusal.path}"
        raise


def _union(arms: Sequence[ValueType]) -> ValueType:
    """The value type of a union: the first member that accepts a value; descriptions omit null."""
    nullable = any(arm.schema == NULL for arm in arms)
    others = [arm for arm in arms if arm.schema != NULL]
    phrase = ", or ".join(arm.phrase for arm in others)

    def convert(value: Any) -> Any:
        if value is None and nullable:
            return None
        for arm in others:
            try:
                return arm.convert(value)
            except Refusal as refusal:
                # a refusal of an entry says more than a list of what the whole could be
                if refusal.path or len(others) == 1:
                    raise
        raise refused(value, phrase)

    choices = tuple(choice for arm in others for choice in arm.choices)
    return ValueType(phrase, convert, {"anyOf": [arm.schema for arm in arms]}, choices)


def _record(cls: Any) -> ValueType:
    """The keys of a TypedDict, and no others."""
    types = {key: value_type(hint) for key, (hint, _) in record_keys(cls).items()}
    required = [key for key, (_, always) in record_keys(cls).items() if always]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise refused(value, "a mapping")
        for key in required:
            if key not in value:
                raise Refusal("missing", f".{key}")
        for key in value:
            if key not in types:
                raise Refusal("unknown key", f".{key}")
        return {key: _convert_item(types[key], key, entry) for key, entry in value.items()}

    return ValueType("a mapping", convert, {"$ref": f"#/$defs/{cls.__name__}"})


def record_keys(cls: Any) -> dict[str, tuple[Any, bool]]:
    """(annotation, whether it is always there) of every key of a TypedDict.

    Its own `__required_keys__` do not know NotRequired where annotations are texts.
    """
    hints = get_type_hints(cls, include_extras=True).items()
    return {
        key: (get_args(hint)[0], False) if get_origin(hint) is NotRequired else (hint, True)
        for key, hint in hints
    }


LOADED = {"model", "models", "return", "_"}
"""Annotations that say nothing of a value: a model is checked where it is loaded, `_` is a KW_ONLY."""


@cache
def accepted(asker: Any) -> Mapping[str, ValueType]:
    """The values that each argument of a function, or each field of a record, accepts by its annotation."""
    return {name: value_type(hint) for name, hint in hints(asker).items()}


def hints(asker: Any) -> dict[str, Any]:
    """The annotations of a function or record by name, with their metadata, but for the models."""
    by_name: dict[str, Any] = {}
    # from the base down, so that a field that is stated again has its last annotation
    for owner in reversed(asker.__mro__[:-1]) if isinstance(asker, type) else (asker,):
        # evaluated one by one, as the names of models are there for type checkers alone
        annotations = inspect.get_annotations(owner).items()
        written = {name: annotation for name, annotation in annotations if name not in LOADED}
        names = vars(sys.modules[owner.__module__])
        by_name |= get_type_hints(SimpleNamespace(__annotations__=written), names, include_extras=True)
    return by_name


def check_values(where: str, record: Any, **others: ValueType) -> None:
    """Convert the fields of a frozen record to what each accepts; ArchError with all that is refused.

    `others` are values that fields accept in place of what their annotations say.
    """
    problems = []
    for name, known in {**accepted(record.__class__), **others}.items():
        try:
            object.__setattr__(record, name, _converted(known, getattr(record, name)))
        except Refusal as refusal:
            problems.append(Problem(f"{name}{refusal.path} {refusal.of_argument()}", path=where))
    if problems:
        raise ArchError(problems)


def _converted(known: ValueType, value: Any) -> Any:
    """The value as an int or a word, or a symbol or array of sizes as it is; Refusal for anything else."""
    # numpy's scalars have 0 axes and are converted below, as numbers
    if getattr(value, "ndim", 0):
        _refuse_smaller(known, value)
        return value
    if getattr(value, "free_symbols", None):
        # sympy answers None where it cannot tell: only what it knows is refused
        if value.is_integer is False or value.is_negative:
            raise refused(value, known.phrase)
        return value
    if hasattr(value, "minimum") and not hasattr(value, "ndim"):  # a number known later
        return value
    return known.convert(value)


def _refuse_smaller(known: ValueType, array: Any) -> None:
    """Raise Refusal for an array with an element that is not accepted."""
    if getattr(array.dtype, "kind", "") not in ("i", "u") or not array.size:
        raise refused(array, known.phrase)
    # sizes are bounded from below alone: the least element speaks for all
    known.convert(array.min())
