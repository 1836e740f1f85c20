"""Modules of one's own in place of an architecture: who answers.

What answers is imported where a module is given: counting an architecture starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from archcli.api.asking.module_options import ModuleOptions, is_module
from archcli.errors import ArchError, quote
from archcli.measure.report import Report

P = ParamSpec("P")
R = TypeVar("R")


def asked_of_module(
    command: str, options: Any, own: ModuleOptions, beside: Mapping[str, Any]
) -> Report | None:
    """The answer of a command whose MODEL names a module of one's own; None for an architecture.

    `beside` are options that the record lacks, by name. Raises ArchError for options that mean nothing of
    the other kind.
    """
    if ":" in options.model or ".py" in options.model:
        from archcli.load.hub.module_names import module_name  # of names that may be a module's

        found = module_name(options.model)
        if found is not None:
            from archcli.api.own import of_named

            return of_named(command, found, options, own, beside)
    stated = [f.name for f in fields(own) if getattr(own, f.name) != f.default]
    if stated:
        option = stated[0].replace("_", "-")
        what = f"--{option} is for a module of yours, and {quote(options.model)} is none"
        raise ArchError(what, "pkg.module:function names one")
    return None


def takes_modules(command: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator by which a function answers of modules as well: `count_params(module, inputs)`."""

    def decorate(answer: Callable[P, R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **options: P.kwargs) -> R:
            given: Any = args[0] if args else options.get("model")
            if is_module(given):
                from archcli.api.own import of_module

                arguments: Any = {name: value for name, value in options.items() if name != "model"}
                of_it: Any = of_module
                report: R = of_it(command, given, *args[1:], **arguments)
                return report
            return answer(*args, **options)

        return call

    return decorate
