"""A question: a record of what a command asks, whose fields are the options in Python and on the line.

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

from collections.abc import Callable, Collection
from dataclasses import fields
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from archcli.modules.spec.calls import bound, plain_signature
from archcli.modules.spec.values import unwrapped

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")


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


def count_option(text: str, letter: str = "", default: str = "", also: tuple[str, ...] = ()) -> Option:
    """The option of a whole number such as 4096, 8k (8,000) and 8K (8,192)."""
    return Option(text, letter, "N", "count", default=default, also=also)


def tokens_option(text: str, letter: str = "", also: tuple[str, ...] = ()) -> Option:
    """The option of a number of tokens; a note says that 128k is not 131,072."""
    return Option(text, letter, "N", "tokens", also=also)


def option_of(annotation: Any) -> Option | None:
    """The Option in the metadata of a field's annotation; None where it is asked in Python alone."""
    return next((entry for entry in unwrapped(annotation)[1] if isinstance(entry, Option)), None)


def asks(record: Callable[P, Q]) -> Callable[[Callable[[Q], R]], Callable[P, R]]:
    """A decorator that lets a function of a question be called with the question's fields.

    Each value is checked by its annotation; ArchError with all that is wrong.
    """

    def decorate(answer: Callable[[Q], R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **options: P.kwargs) -> R:
            arguments = bound(record, args, options, answer.__name__)
            return answer(record(*arguments.args, **arguments.kwargs))

        call.__dict__["__signature__"] = plain_signature(record, answer)  # which help() shows
        return call

    return decorate


def part(question: Any, record: Callable[..., R], *, beside: Collection[str] = ()) -> R:
    """A `record` filled from the fields of a question; its fields `beside` keep their defaults.

    A field that the question lacks is an AttributeError: an option renamed in one of both cannot be lost.
    """
    names = [field.name for field in fields(record) if field.name not in beside]  # type: ignore[arg-type]
    return record(**{name: getattr(question, name) for name in names})
