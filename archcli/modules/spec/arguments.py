"""Arguments of public functions and fields of questions: each value is checked by its annotation.

A call with anything else raises one ArchError with all that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import BoundArguments, Signature, signature
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from archcli.arith import ELEMENT_BITS
from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.modules.spec.request import Request
from archcli.modules.spec.values import (
    Conversion,
    Refusal,
    ValueType,
    ZeroOrMore,
    accepted,
    bare,
    hints,
    refused,
    value_type,
)
from archcli.units import parse_bytes, parse_dtype

P = ParamSpec("P")
R = TypeVar("R")

CountedPairs = Literal["exact", "dense"]
"""Whether attention pairs are those that the mask allows, or all S x S."""
Mla = Literal["auto", "naive", "absorbed"]
"""Latent attention: keys and values are rebuilt, or queries work on the latents; auto as engines do."""
Scan = Literal["auto", "chunked", "recurrent"]
"""Recurrent layers: many tokens at once by matrix products, or one by one; auto decodes one by one."""
By = Literal["year", "series"]
"""What a survey groups architectures by."""
Schedule = Literal["1f1b", "interleaved"]
"""The order in which a pipeline's stages take micro batches: arXiv:2104.04473."""
ZeroStage = Literal[0, 1, 2, 3]
"""What ZeRO shards: nothing, the optimizer's states, gradients too, weights too."""
Quantity = Literal["params", "flops", "kvcache"]
"""What a closed form is of."""
AttentionKernel = Literal["sdpa", "eager"]
"""Attention in torch: one fused call, or its operations one by one."""


def _dtype(value: Any) -> str:
    """The name of a dtype, also one of torch, or of a stored format."""
    text = TEXT.convert(_dtype_name(value))
    if text.strip().lower() in ELEMENT_BITS:
        return parse_dtype(text)
    from archcli.modules.stored.formats import parse_format

    return parse_format(text)


def _plain_dtype(value: Any) -> str:
    """The name of a dtype, also one of torch, but of no stored format."""
    return parse_dtype(TEXT.convert(_dtype_name(value)))


def _dtype_name(value: Any) -> Any:
    return str(value).removeprefix("torch.") if hasattr(value, "itemsize") else value


def memory_bytes(value: Any) -> int:
    """An amount of memory in bytes, also as a text such as 80GiB."""
    amount: int = parse_bytes(value) if isinstance(value, str) else BYTES.convert(value)
    return amount


def _request(value: Any) -> Request:
    """A request whose sizes are whole numbers: reports hold no symbols or arrays."""
    if not isinstance(value, Request):
        raise refused(value, "a Request")
    if not value.is_plain:
        raise Refusal("must hold whole numbers: archcli.formula counts in symbols, archcli.sweep in arrays")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    """A mapping by name, whatever its values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refused(value, "a mapping from names")
    return value


TEXT, BYTES = value_type(str), value_type(ZeroOrMore)
DtypeName = Annotated[str, Conversion("the name of a dtype", _dtype)]
"""A dtype by name, one of torch's, or a stored format such as q8_0."""
PlainDtype = Annotated[str, Conversion("the name of a dtype", _plain_dtype)]
"""A dtype by name, and no stored format."""
MemorySize = Annotated[int | str, Conversion("bytes", memory_bytes)]
"""Bytes, or a text such as 80GiB."""
PlainRequest = Annotated[Request, Conversion("a Request", _request)]
"""A Request of whole numbers."""
ByName = Annotated[Mapping[str, Any], Conversion("a mapping from names", _mapping)]
"""A mapping from names to whatever."""


def accept(name: str, value: Any, known: Mapping[str, ValueType], where: str = "") -> Any:
    """The value converted to what `name` accepts; ArchError with `where` otherwise."""
    try:
        return known[name].convert(value)
    except Refusal as refusal:
        what, hint = f"{name}{refusal.path} {refusal.of_argument()}", ""
    except ArchError as error:
        what, hint = error.problems[0].what, error.problems[0].hint
    raise ArchError(Problem(what, hint, path=where)) from None


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator that checks a function's arguments by their annotations; ArchError for a wrong one."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        arguments = bound(function, args, options)
        return function(*arguments.args, **arguments.kwargs)

    call.__dict__["__signature__"] = plain_signature(function, function)  # which help() shows
    return call


def plain_signature(asker: Callable[..., Any], returning: Callable[..., Any]) -> Signature:
    """The signature of a function or record with plain types in place of annotated ones.

    What a record inherits stands last.
    """
    plain, found = {name: bare(hint) for name, hint in hints(asker).items()}, signature(asker)
    parameters = [
        parameter.replace(annotation=plain.get(name, parameter.annotation))
        for name, parameter in found.parameters.items()
    ]
    parameters.sort(key=lambda parameter: (parameter.kind, parameter.name not in asker.__annotations__))
    return found.replace(parameters=parameters, return_annotation=returning.__annotations__["return"])


def bound(
    asker: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], where: str = ""
) -> BoundArguments:
    """The arguments of a call of a function or record, each checked; ArchError with all that is wrong.

    `where` is the name that errors give it.
    """
    where, known = where or asker.__name__, signature(asker)
    problems = [_unknown(name, known.parameters, where) for name in options if name not in known.parameters]
    if problems:
        raise ArchError(problems)
    try:
        call = known.bind(*args, **options)
    except TypeError as error:
        raise ArchError(Problem(str(error), f"help(archcli.{where}) shows them", path=where)) from None
    problems = list(_checked(call, where, accepted(asker)))
    if problems:
        raise ArchError(problems)
    return call


def _unknown(name: str, known: Mapping[str, Any], where: str) -> Problem:
    return Problem(f"unknown argument {quote(name)}", suggest(name, known, "it has"), path=where)


def _checked(call: BoundArguments, where: str, known: Mapping[str, ValueType]) -> Iterator[Problem]:
    """Convert the arguments of a call; yields what is refused. A default that is repeated is accepted."""
    for name, value in call.arguments.items():
        if name in known and value is not call.signature.parameters[name].default:
            try:
                call.arguments[name] = accept(name, value, known, where)
            except ArchError as error:
                yield from error.problems
    twice = [name for name in call.arguments if name in {*accepted(Request), "mla", "scan"}]
    if call.arguments.get("request") is not None and twice:
        yield Problem(f"{either(twice)} stands beside a request", "state it in the Request alone", path=where)
