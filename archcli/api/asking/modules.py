"""Torch modules and transformers' classes in place of MODEL: hand the question to who answers it.

What answers is imported where a module is given: counting an architecture starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar

from archcli.api.asking.question import Option
from archcli.errors import ArchError, UndescribedError, quote
from archcli.load.source import load
from archcli.measure.report import Report
from archcli.plugins import optional, part

if TYPE_CHECKING:
    from archcli.load.hub.module_names import ModuleName

Inputs = Annotated[
    Sequence[str],
    Option(
        "Of a module or class: an input by name, dtype and shape, 'ids=int64[1,2048]'. Repeatable.",
        metavar="NAME=DTYPE[SHAPE]",
    ),
]
Call = Annotated[
    str, Option("Of a module or class: the method that is run.", metavar="METHOD", default="forward")
]
RunOn = Annotated[
    Literal["meta", "cpu", "cuda"],
    Option("Of a module or class: run without values (meta), or with them on a device."),
]
AllowUncounted = Annotated[
    bool, Option("Of a module or class: note products without a formula in place of refusing them.")
]
ByClass = Annotated[
    bool,
    Option(
        "Of a config.json: count the class of transformers, not archcli's description; say the difference."
    ),
]


@dataclass(frozen=True)
class ModuleOptions:
    """Options for running a module: its inputs, method, device, and operations without a formula."""

    input: Inputs = ()
    call: Call = "forward"
    run_on: RunOn = "meta"
    allow_uncounted: AllowUncounted = False
    by_class: ByClass = False


def is_module(thing: Any) -> bool:
    """Whether it is an nn.Module, told without importing torch."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(thing).__mro__)


P = ParamSpec("P")
R = TypeVar("R")


def module_named(model: str) -> ModuleName | None:
    """The module of one's own that MODEL names; None for an architecture."""
    if ":" not in model and ".py" not in model:
        return None
    from archcli.load.hub.module_names import module_name  # of names that may be a module's

    return module_name(model)


def of_any(
    command: str,
    options: Any,
    running: ModuleOptions,
    extra: Mapping[str, Any],
    answer: Callable[[], Report],
) -> Report:
    """Answer a command on a module of one's own, a class of transformers or an architecture.

    `extra` are options that the record lacks, by name. Raises ArchError for options that mean nothing of
    the kind that MODEL is.
    """
    named = module_named(options.model)
    if named is not None:
        return _report("of_named", command, named, options, running, extra)
    if running.by_class:
        return _report("by_class", command, options.model, options, running, extra)
    changed = [f.name for f in fields(running) if getattr(running, f.name) != f.default]
    try:
        if not changed:
            return answer()
        load(options.model)
    except UndescribedError as error:
        if optional("running.of_class") is None:
            raise
        return _report("of_class", command, error, options, running, extra)
    option = changed[0].replace("_", "-")
    what = f"--{option} is for a module of yours, and {quote(options.model)} is none"
    hint = "pkg.module:function names one; --by-class counts the class of a config.json"
    raise ArchError(what, hint)


OF_CLASSES = {"inputs", "loss", *(field.name for field in fields(ModuleOptions))}
"""Arguments of a module or class, and of no architecture."""


def _report(answers: str, *question: Any) -> Report:
    """The report of a function of the wing that runs modules."""
    report: Report = part(f"running.{answers}")(*question)
    return report


def _undescribed(error: ArchError, model: Any, *, of_class: bool) -> UndescribedError | None:
    """The UndescribedError of a model: `error` itself, or the one that loading the model raises.

    It is read for a call with arguments `of_class` alone, which was refused before.
    """
    if isinstance(error, UndescribedError):
        return error
    if not of_class:
        return None
    from archcli.api.asking.subject import given

    try:
        given(model)
    except UndescribedError as unread:
        return unread
    except ArchError:
        pass
    return None


def takes_modules(command: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that lets a function take torch modules as well: `count_params(module, inputs)`."""

    def decorate(answer: Callable[P, R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **options: P.kwargs) -> R:
            model: Any = args[0] if args else options.get("model")
            if is_module(model):
                arguments: Any = {name: value for name, value in options.items() if name != "model"}
                report: R = part("running.of_module")(command, model, *args[1:], **arguments)
                return report
            try:
                return answer(*args, **options)
            except ArchError as error:
                of_class = len(args) > 1 or not OF_CLASSES.isdisjoint(options)
                undescribed = _undescribed(error, model, of_class=of_class)
                by_class = optional("running.of_python")
                if undescribed is None or by_class is None:
                    raise
                arguments = {name: value for name, value in options.items() if name != "model"}
                counted: R = by_class(command, undescribed, *args[1:], **arguments)
                return counted

        return call

    return decorate
