"""A module by its name, `pkg.module:function`: import it, call it, and find what it is run on.

This runs the user's code, and nothing else of archcli does.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from archcli.errors import ArchError, closest, either, quote, sanitize
from archcli.recording.own import InputForm
from archcli.runtime.dtypes import DTYPES
from archcli.runtime.own.failures import is_theirs

LARGE = 2**16
"""Elements of a new tensor that needs no values; smaller ones may be settings, as rates of a schedule."""
MAKERS = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn}
MOST_FRAMES = 5


class Made(NamedTuple):
    """A module, and the inputs that came with it: positional and named."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def module_named(name: str, run_on: str, *, here: bool) -> Made:
    """The module that `pkg.module:function` names. Raises ArchError where it cannot be had.

    With `here` the working directory is searched, too. The function returns a module, or a module and its
    inputs; a class is called, an instance is taken as it is.
    """
    with _path(here=here):
        thing = _thing(name, here=here)
        made = thing
        if not isinstance(thing, nn.Module):
            made = _made(name, thing, without_values=run_on == "meta")
    if isinstance(made, tuple) and made and isinstance(made[0], nn.Module):
        return Made(made[0], *_arguments(made[1:]))
    if not isinstance(made, nn.Module):
        hint = "it has to return a torch.nn.Module, or (module, inputs)"
        raise ArchError(f"{name} gives {quote(type(made).__name__)}, no module", hint)
    return Made(made, (), {})


@contextmanager
def _path(*, here: bool) -> Iterator[None]:
    """Let imports search the working directory within the block, or not."""
    before = list(sys.path)
    cwd = str(os.getcwd())  # noqa: PTH109 - as Python writes it into sys.path
    if here:
        sys.path.insert(0, cwd)
    elif (
        sys.path
        and sys.path[0] in {"", cwd}
        and cwd not in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    ):
        del sys.path[0]  # `python -m archcli` puts it there
    try:
        yield
    finally:
        sys.path[:] = before


def _thing(name: str, *, here: bool) -> Any:
    module_name, _, attributes = name.partition(":")
    try:
        thing: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            hint = "is it installed, or its folder on PYTHONPATH?"
            if not here:
                hint = f"py:{name} also looks in this folder"
            raise ArchError(f"no module {quote(error.name)} to import", hint) from None
        raise _failed(f"importing {module_name}", error) from None
    except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise _failed(f"importing {module_name}", error) from None
    for attribute in attributes.split("."):
        if not hasattr(thing, attribute):
            known = [word for word in dir(thing) if not word.startswith("_")]
            near = closest(attribute, known)
            hint = f"did you mean {either(near)}?" if near else "name a function, a class or a module in it"
            raise ArchError(f"{module_name} has no {quote(attribute)}", hint)
        thing = getattr(thing, attribute)
    return thing


def _failed(doing: str, error: BaseException) -> ArchError:
    """An error with the frames of the user's code that led to it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_theirs(frame.filename)]
    last = frames[-MOST_FRAMES:]
    places = "; ".join(f"{frame.filename}:{frame.lineno} {sanitize(frame.line or '')}" for frame in last)
    first = sanitize((str(error).strip() or "no message").splitlines()[0])
    return ArchError(f"{doing} raises {type(error).__name__}: {first}", places or "it is not archcli's code")


def _made(name: str, thing: Any, *, without_values: bool) -> Any:
    if not callable(thing):
        raise ArchError(
            f"{name} is {quote(type(thing).__name__)}, nothing that makes a module", "name a function"
        )
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
        except Exception:  # noqa: BLE001, S110 - it mixes tensors with and without values: make all of them
            pass
    try:
        return thing()
    except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise _failed(f"calling {name}", error) from None


class LargeOnMeta(TorchFunctionMode):
    """Make large tensors on meta, so that no weight is filled; small ones keep their values.

    Schedules are read off tensors while a module is built (`torch.linspace(…)[i].item()`), which raises where
    everything is on meta.
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
    """(positional, named) of what a function returns after the module."""
    if len(rest) == 1 and isinstance(rest[0], Mapping):
        return (), dict(rest[0])
    if len(rest) == 1 and isinstance(rest[0], list | tuple):
        return tuple(rest[0]), {}
    if len(rest) == 2 and isinstance(rest[1], Mapping) and not torch.is_tensor(rest[0]):  # noqa: PLR2004
        return tuple(rest[0]), dict(rest[1])
    return tuple(rest), {}


def with_inputs(made: Made, forms: Sequence[InputForm], method: str, run_on: str) -> Made:
    """The module with inputs of the stated forms, else those that came with it, else its dummy inputs."""
    if forms:
        names = inspect.signature(getattr(made.module, method, made.module.forward)).parameters
        tensors = [(form, _tensor(form, run_on)) for form in forms]
        for form in forms:
            takes_any = any(x.kind is inspect.Parameter.VAR_KEYWORD for x in names.values())
            if form.name and form.name not in names and not takes_any:
                near = closest(form.name, names)
                hint = f"did you mean {either(near)}?" if near else f"it takes {', '.join(names)}"
                raise ArchError(f"{type(made.module).__name__} takes no {quote(form.name)}", hint)
        args = tuple(tensor for form, tensor in tensors if not form.name)
        return Made(made.module, args, {form.name: tensor for form, tensor in tensors if form.name})
    if made.args or made.kwargs:
        return made
    dummies = getattr(made.module, "dummy_inputs", None)  # transformers' models know theirs
    if isinstance(dummies, Mapping):
        return Made(made.module, (), dict(dummies))
    return made


def _tensor(form: InputForm, run_on: str) -> torch.Tensor:
    """Zeros as ids, ones as a mask, noise as features; on meta no floating one takes memory."""
    dtype = DTYPES.get(form.dtype) or getattr(torch, form.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ArchError(f"{quote(form.dtype)} is no dtype of torch", "int64, bool, float32 and bf16 are some")
    device = "cpu" if run_on == "meta" else run_on
    if dtype is torch.bool:
        return torch.ones(form.shape, dtype=dtype, device=device)
    if dtype.is_floating_point and run_on == "meta":
        return torch.empty(form.shape, dtype=dtype, device="meta")
    if dtype.is_floating_point:
        return torch.randn(form.shape, device=device).to(dtype)
    return torch.zeros(form.shape, dtype=dtype, device=device)
