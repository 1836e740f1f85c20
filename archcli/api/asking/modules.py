"""A decorator: where a Python caller gives an nn.Module in place of an architecture, it is run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def takes_modules(command: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator by which a function answers of modules as well: `count_params(module, inputs)`."""

    def decorate(answer: Callable[P, R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **options: P.kwargs) -> R:
            given: Any = args[0] if args else options.get("model")
            # told without importing what modules need, which few callers do
            if any(base.__module__ == "torch.nn.modules.module" for base in type(given).__mro__):
                from archcli.api.own import of_module

                arguments: Any = {name: value for name, value in options.items() if name != "model"}
                of_it: Any = of_module
                report: R = of_it(command, given, *args[1:], **arguments)
                return report
            return answer(*args, **options)

        return call

    return decorate
