"""A question: a record whose fields are a command's options, in Python and on the command line.

    @dataclass(frozen=True)
    class CacheOptions:
        model: ModelLike
        context: Context = None         # an annotation of options.py: type, limit, help, letter
        batch_size: BatchSize = 1

    @asks(CacheOptions)
    def kvcache(options: CacheOptions) -> Report: ...    # kvcache("gpt2", context=1024)

`commands/` makes the command's options of the same record, `sweep` the settings of its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import Parameter
from typing import Any, NamedTuple, ParamSpec, TypeVar

from archcli.load import checked_load
from archcli.modules.spec.calls import bound, plain_signature, with_arguments
from archcli.modules.spec.values import hints, unwrapped
from archcli.units import parse_count

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")


CHANGES = Parameter(
    "set",
    Parameter.KEYWORD_ONLY,
    default=(),
    annotation=Sequence[str] | Mapping[str, bool | int | float | str],
)
"""In Python, changes of the model's fields beside the fields of a question, as `load` takes them."""


class Option(NamedTuple):
    """How a field is given on the command line, and what it means.

    help      what it means, as -h and the docs show it
    letter    a short form: -b
    metavar   what stands for the value in the help: N
    reads     how a text becomes the value: count (8k), tokens (a count, with a note where 8k may mean 8,192),
              bytes (80GiB), number (0.9), text (as Python takes it), picture (a file); else by its type
    completes what a shell offers: a function of `commands.line.completion`
    default   words for a default that depends on something
    name      the option's name where it is not the field's; of a switch that has two, on/--off
    any_case  BF16 is bf16
    argument  it stands without a name
    writes    it names a file or a folder that is written, as every picture does
    also      further names, which the help leaves out: --seq-len and -s of --context
    rare      the tools that assistants read leave it out: their list is a part of every context
    """

    help: str = ""
    letter: str = ""
    metavar: str | None = None
    reads: str = ""
    completes: str = ""
    default: str = ""
    name: str = ""
    any_case: bool = False
    argument: bool = False
    writes: bool = False
    also: tuple[str, ...] = ()
    rare: bool = False


def count_option(
    text: str, letter: str = "", default: str = "", also: tuple[str, ...] = (), *, rare: bool = False
) -> Option:
    """The option of a whole number such as 4096, 8k (8,000) and 8K (8,192)."""
    return Option(text, letter, "N", "count", default=default, also=also, rare=rare)


def tokens_option(text: str, letter: str = "", also: tuple[str, ...] = ()) -> Option:
    """The option of a number of tokens; a note says that 128k is not 131,072."""
    return Option(text, letter, "N", "tokens", also=also)


def option_of(annotation: Any) -> Option | None:
    """The Option in the metadata of a field's annotation; None where it is asked in Python alone."""
    return next((entry for entry in unwrapped(annotation)[1] if isinstance(entry, Option)), None)


def by_field(record: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of a record's fields: seq_len, where it is another name of context."""
    annotations = hints(record)
    options = {name: option_of(annotation) for name, annotation in annotations.items()}
    also = {
        word.removeprefix("--").replace("-", "_"): name
        for name, option in options.items()
        if option is not None
        for word in option.also
    }
    # a name that the record has itself, or that is given beside the field's, is left for the check to refuse
    meant = {name: also.get(name, name) if name not in annotations else name for name in values}
    return {name if meant[name] in values else meant[name]: value for name, value in values.items()}


def asks(record: Callable[P, Q]) -> Callable[[Callable[[Q], R]], Callable[P, R]]:
    """A decorator that lets a function of a question be called with the question's fields.

    A question of a model takes `set`, too: kvcache("gpt2", set={"n_heads": 8}).
    Each value is checked by its annotation; ArchError with all that is wrong.
    """

    def decorate(answer: Callable[[Q], R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **options: P.kwargs) -> R:
            named = by_field(record, options)
            values = {name: _number(record, name, value) for name, value in named.items()}
            changes = values.pop("set", None) if takes_changes else None
            arguments = bound(record, args, values, answer.__name__, extra=[entry.name for entry in last])
            if changes:
                arguments.arguments["model"] = checked_load(arguments.arguments["model"], changes)
            return answer(record(*arguments.args, **arguments.kwargs))

        shown = plain_signature(record, answer)
        takes_changes = "model" in shown.parameters
        last = [CHANGES] if takes_changes else []
        call.__dict__["__signature__"] = shown.replace(parameters=[*shown.parameters.values(), *last])
        names = [*shown.parameters, *(entry.name for entry in last)]
        call.__doc__ = with_arguments(call.__doc__, hints(record), names)
        return call

    return decorate


def _number(record: Any, name: str, value: Any) -> Any:
    """A text such as "32k" as the number that the command line reads; anything else as it is."""
    option = option_of(hints(record)[name]) if isinstance(value, str) and name in hints(record) else None
    return parse_count(value) if option is not None and option.reads in {"count", "tokens"} else value


def part(question: Any, record: Callable[..., R], *, omitted: Collection[str] = ()) -> R:
    """A `record` filled from the fields of a question; its fields `omitted` keep their defaults.

    A field that the question lacks is an AttributeError: an option renamed in one of both cannot be lost.
    """
    names = [field.name for field in fields(record) if field.name not in omitted]  # type: ignore[arg-type]
    return record(**{name: getattr(question, name) for name in names})
