"""Arguments: what the public functions and the options of the commands accept by name.

A name means the same wherever it stands. Whoever accepts a value says so in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import BoundArguments, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from archcli.arith import ELEMENT_BITS
from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.modules.spec.request import ABOVE_0, ABOVE_0_OR_NONE, FIELDS, Request
from archcli.modules.spec.values import Interval, Refusal, ValueType, refused, value_type
from archcli.units import parse_bytes, parse_dtype

if TYPE_CHECKING:
    from os import PathLike

    from archcli.modules.models.model import Model

ModelLike: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Model"
"""What stands for an architecture: a path, a name, a mapping as YAML or config.json hold it, a `Model`."""
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


TEXT, BYTES, TEXTS = value_type(str), value_type(Annotated[int, Interval(ge=0)]), value_type(tuple[str, ...])

ARGUMENTS: Mapping[str, ValueType] = {
    **FIELDS,
    "all_presets": value_type(bool),
    "approx": value_type(bool),
    "at": TEXTS,
    "attention": value_type(AttentionKernel),
    "by": value_type(By | None),
    "columns": TEXTS,
    "context": ABOVE_0_OR_NONE,
    **dict.fromkeys(("dp", "tp", "pp", "micro_batches", "virtual_stages", "ep", "cp"), ABOVE_0),
    "depth": value_type(Annotated[int, Interval(ge=0)]),
    "device": TEXT,
    "dtype": ValueType("the name of a dtype", _dtype, {"type": "string"}),
    "kind": TEXT,
    "mask": value_type(CountedPairs),
    "memory": ValueType("bytes", memory_bytes, {}),
    "latex": value_type(bool),
    "mla": value_type(Mla),
    "overrides": TEXTS,
    "path": value_type(str | None),
    "place": TEXT,
    "quantity": value_type(Quantity),
    "request": ValueType("a Request", _request, {}),
    "scan": value_type(Scan),
    "schedule": value_type(Schedule),
    "sort": value_type(str | None),
    "sp": value_type(bool),
    "state_dtype": ValueType("the name of a dtype", _plain_dtype, {"type": "string"}),
    "steps": value_type(bool),
    "symbols": TEXTS,
    "values": ValueType("a mapping from names", _mapping, {}),
    "where": TEXTS,
    "zero": value_type(ZeroStage),
}
"""The values that each name accepts. None leaves an argument out."""


def accept(name: str, value: Any, where: str = "", known: Mapping[str, ValueType] = ARGUMENTS) -> Any:
    """The value converted to what `name` accepts; ArchError with `where` otherwise."""
    try:
        return known[name].convert(value)
    except Refusal as refusal:
        what, hint = f"{name}{refusal.path} {refusal.of_argument()}", ""
    except ArchError as error:
        what, hint = error.problems[0].what, error.problems[0].hint
    raise ArchError(Problem(what, hint, path=where)) from None


def bound(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    own: Mapping[str, ValueType] | None = None,
) -> BoundArguments:
    """The arguments of a call, each checked by its name; ArchError with all that is wrong.

    `own` are values that a name accepts in this function, where they are others.
    """
    where, known = function.__name__, signature(function)
    problems = [_unknown(name, known.parameters, where) for name in options if name not in known.parameters]
    if problems:
        raise ArchError(problems)
    try:
        call = known.bind(*args, **options)
    except TypeError as error:
        raise ArchError(Problem(str(error), f"help(archcli.{where}) shows them", path=where)) from None
    problems = list(_checked(call, where, own or {}))
    if problems:
        raise ArchError(problems)
    return call


def _unknown(name: str, known: Mapping[str, Any], where: str) -> Problem:
    return Problem(f"unknown argument {quote(name)}", suggest(name, known, "it has"), path=where)


def _checked(call: BoundArguments, where: str, own: Mapping[str, ValueType]) -> Iterator[Problem]:
    """Convert the arguments of a call; yields what is refused. A default that is repeated is accepted."""
    known = {**ARGUMENTS, **own}
    for name, value in call.arguments.items():
        if name in known and value is not call.signature.parameters[name].default:
            try:
                call.arguments[name] = accept(name, value, where, known)
            except ArchError as error:
                yield from error.problems
    twice = [name for name in call.arguments if name in {*FIELDS, "mla", "scan"}]
    if call.arguments.get("request") is not None and twice:
        yield Problem(f"{either(twice)} stands beside a request", "state it in the Request alone", path=where)
