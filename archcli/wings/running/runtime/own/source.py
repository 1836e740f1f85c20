"""Get a module by its name, `pkg.module:function`: import it, and call it if it is a function.

This imports and runs the user's code.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from archcli.errors import ArchError, closest, describe_argument, either, quote
from archcli.wings.running.recording.own import import_path, no_module
from archcli.wings.running.runtime.own.failures import raised

LARGE = 2**16
"""Elements from which on a new tensor gets no values; smaller ones may be settings, as drop rates."""
MAKERS = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn}


class Made(NamedTuple):
    """A module, and inputs that its function returned: positional and named."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@contextmanager
def prints_to_errors() -> Iterator[None]:
    """Redirect standard output to standard error within the block: the report has stdout for itself."""
    sys.stdout.flush()
    kept = os.dup(1)
    # the file descriptor too: for child processes and C libraries
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        # code that kept the old sys.stdout has printed into its buffer
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def module_named(name: str, run_on: str, *, here: bool) -> Made:
    """The module of `pkg.module:function`. Raises ArchError if there is none.

    With `here` the working directory is searched too. A function returns a module, or a module and inputs; a
    class is called; an instance is the module.
    """
    with import_path(here=here):
        thing = _thing(name)
        result = thing
        if not isinstance(thing, nn.Module):
            result = _constructed(name, thing, without_values=run_on == "meta")
    if isinstance(result, tuple) and result and isinstance(result[0], nn.Module):
        return Made(result[0], *_arguments(result[1:]))
    if not isinstance(result, nn.Module):
        what = f"{name} returns {describe_argument(result)}, no module"
        raise ArchError(what, "it has to return a torch.nn.Module, or (module, inputs)")
    return Made(result, (), {})


def _thing(name: str) -> Any:
    module_name, _, attributes = name.partition(":")
    try:
        thing: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise no_module(error.name) from None
        raise raised(f"importing {module_name}", error) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise raised(f"importing {module_name}", error) from None
    at = module_name
    for attribute in attributes.split("."):
        if not hasattr(thing, attribute):
            near = closest(attribute, (word for word in dir(thing) if not word.startswith("_")))
            near = near or list(_defined(thing))
            hint = f"did you mean {either(near)}?" if near else "name a function, a class or a module in it"
            raise ArchError(f"{at} has no {quote(attribute)}", hint)
        thing, at = getattr(thing, attribute), f"{at}.{attribute}"
    return thing


def _defined(module: Any) -> Iterator[str]:
    """The first functions, classes and modules that a Python module defines itself."""
    things = [(name, thing) for name, thing in vars(module).items() if not name.startswith("_")]
    makes = (
        name
        for name, thing in things
        if isinstance(thing, nn.Module)
        or (inspect.isfunction(thing) and thing.__module__ == module.__name__)
        or (inspect.isclass(thing) and issubclass(thing, nn.Module) and thing.__module__ == module.__name__)
    )
    yield from (name for _, name in zip(range(3), makes, strict=False))


def _constructed(name: str, thing: Any, *, without_values: bool) -> Any:
    if not callable(thing):
        what = f"{name} is {describe_argument(thing)}, and makes no module"
        near = list(_defined(thing)) if inspect.ismodule(thing) else []
        hint = f"did you mean {name}.{near[0]}?" if near else "name a function, a class or an instance"
        raise ArchError(what, hint)
    try:
        inspect.signature(thing).bind()
    except TypeError as error:
        hint = "name a function without arguments that returns the module"
        raise ArchError(f"{name} cannot be called without arguments: {error}", hint) from None
    except ValueError:  # no signature is known
        pass
    if without_values:
        try:
            with LargeOnMeta():
                return thing()
        except (Exception, SystemExit):  # noqa: BLE001, S110 - it mixes tensors with and without values
            pass
    try:
        return thing()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise raised(f"calling {name}", error) from None


class LargeOnMeta(TorchFunctionMode):
    """Create large tensors on meta, so that no weight is filled; small ones have values.

    A module may read values while it is built, as drop rates of a schedule (`torch.linspace(…)[i].item()`),
    which raises if everything is on meta.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in MAKERS and kwargs.get("device") is None and _elements(args, kwargs) > LARGE:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _elements(args: Any, kwargs: Any) -> int:
    sizes = kwargs.get("size", args)
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = sizes[0]
    count = 1
    for size in sizes:
        count *= size if isinstance(size, int) else 1
    return count


def _arguments(rest: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(positional, named) inputs that a function returned after the module."""
    if len(rest) == 1 and isinstance(rest[0], Mapping):
        return (), dict(rest[0])
    if len(rest) == 1 and isinstance(rest[0], list | tuple):
        return tuple(rest[0]), {}
    if len(rest) == 2 and isinstance(rest[1], Mapping) and not torch.is_tensor(rest[0]):  # noqa: PLR2004
        return tuple(rest[0]), dict(rest[1])
    return tuple(rest), {}
