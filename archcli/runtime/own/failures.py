"""A module of one's own that cannot run: what it did, where in its code, and what helps, in a line."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from archcli.errors import ArchError, sanitize
from archcli.runtime.own.watch import ModuleWatch

LOOKS_AT_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
NO_FAKE = (UnsupportedFakeTensorException, UnsupportedOperatorException, NotImplementedError)
ON_CPU = "--run-on cpu (run_on='cpu') runs it on real tensors"
NOT_THEIRS = {Path(torch.__file__).parent, Path(__file__).parents[2]}


@contextmanager
def told_of_failures(run_on: str, given: Callable[[], list[str]], watch: ModuleWatch) -> Iterator[None]:
    """Raise ArchError in place of whatever a module raises within the block."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it prints a traceback of its own
    try:
        yield
    except ArchError:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise _told(error, run_on, ", ".join(given()) or "nothing", watch) from None
    finally:
        log.setLevel(level)


def _told(error: Exception, run_on: str, given: str, watch: ModuleWatch) -> ArchError:
    at = _place(error)
    first = sanitize((str(error).strip() or type(error).__name__).splitlines()[0])
    if type(error) in LOOKS_AT_VALUES:
        return ArchError(f"{at} looks at values ({first}), and fake tensors have none", ON_CPU)
    if type(error) in NO_FAKE and run_on == "meta":
        return ArchError(f"{at}: {first}; it does not run on fake tensors", ON_CPU)
    fault = watch.fault
    where = f"{fault.path or 'the module'} ({fault.class_name})" if fault is not None else "the module"
    shapes = ", ".join(f"[{', '.join(map(str, shape))}]" for shape in fault.inputs) if fault else ""
    what = f"{where} raises {type(error).__name__} at {at}: {first}"
    to_it = f"; it was given {shapes}" if shapes else ""
    hint = f"the inputs are {given}; --input states others"
    if run_on == "meta" and ("device" in first or "subclass" in first):
        hint = ON_CPU
    return ArchError(f"{what}{to_it}", hint)


def _place(error: Exception) -> str:
    """The last line of a stranger's code that led to an error: file:line."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if is_theirs(frame.filename)]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else "its code"


def is_theirs(filename: str) -> bool:
    """Whether a file is neither torch's nor ours."""
    return not any(folder in Path(filename).parents for folder in NOT_THEIRS) and filename[:1] != "<"
