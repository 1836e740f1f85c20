"""An exception of a user's module as one message: the cause, the line of its code, a hint."""

from __future__ import annotations

import linecache
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_path
from traceback import FrameSummary

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from archcli.errors import ArchError, Mark, Problem, sanitize
from archcli.wings.running.runtime.own.stand_ins import ON_CPU
from archcli.wings.running.runtime.own.watch import ModuleWatch

LOOKS_AT_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
NO_FAKE = (UnsupportedFakeTensorException, UnsupportedOperatorException, NotImplementedError)
TORCH = Path(torch.__file__).parent
NOT_THEIRS = {TORCH, Path(__file__).parents[4]}
OF_FAKES = ("_subclasses", "_ops.py", "_meta_registrations.py", "fx/", "nested/", "_dynamo", "_C")
"""Files of torch that fake tensors pass through."""
STANDARD_LIBRARY = Path(get_path("stdlib"))
MOST_FRAMES = 5


class RunError(ArchError):
    """A module's run that failed. `text` is the exception with its line of code.

    `needs_values` where real tensors may do what fake ones cannot.
    """

    text = ""
    needs_values = False


def raised(doing: str, error: BaseException) -> ArchError:
    """The error for an exception of a stranger's code while it is imported or called, at its last line."""
    # Python's own text of a SyntaxError names the place, which is marked here
    said = error.msg if isinstance(error, SyntaxError) else _first_line(error)
    what = f"{doing} raises {type(error).__name__}: {said}"
    frames = their_frames(error)
    if isinstance(error, SyntaxError) and error.filename:
        text = (error.text or "").rstrip("\n")
        mark = Mark(error.filename, error.lineno or 1, error.offset or 1, text)
    elif frames:
        mark = _mark(frames.pop())
    else:
        return ArchError(what)
    way = list(dict.fromkeys(f"{frame.filename}:{frame.lineno}" for frame in frames))[-MOST_FRAMES:]
    return ArchError(Problem(what, f"reached by {', '.join(way)}" if way else "", mark))


def _mark(frame: FrameSummary) -> Mark:
    line = linecache.getline(frame.filename, frame.lineno or 1).rstrip("\n")
    code = line.strip()
    return Mark(frame.filename, frame.lineno or 1, line.find(code) + 1, line, max(len(code), 1))


def _first_line(error: BaseException) -> str:
    return sanitize((str(error).strip() or "no message").splitlines()[0]).rstrip(".")


@contextmanager
def told_of_failures(run_on: str, inputs: Callable[[], list[str]], watch: ModuleWatch) -> Iterator[None]:
    """Raise ArchError in place of whatever a module raises within the block."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it prints a traceback of its own
    try:
        yield
    except ArchError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code may raise anything
        raise _with_line(error, run_on, ", ".join(inputs()) or "none", watch) from None
    finally:
        log.setLevel(level)


def _with_line(error: BaseException, run_on: str, inputs: str, watch: ModuleWatch) -> RunError:
    """The error of a run, with its own words and its line."""
    frames = their_frames(error)
    problem = _problem(error, frames, run_on, inputs, watch)
    failed = RunError(problem)
    failed.needs_values = problem.hint == ON_CPU
    failed.text = " ".join([str(error), *(frame.line or "" for frame in frames[-1:])])
    return failed


def _problem(
    error: BaseException, frames: Sequence[FrameSummary], run_on: str, inputs: str, watch: ModuleWatch
) -> Problem:
    at = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    first = _first_line(error)
    fault = watch.fault
    where = f"{fault.path or 'the module'} ({fault.class_name})" if fault is not None else "the module"
    if type(error) in LOOKS_AT_VALUES:
        return Problem(f"{at or where} looks at values ({first}), and fake tensors have none", ON_CPU)
    if type(error) in NO_FAKE and run_on == "meta" and _is_of_fakes(error):
        return Problem(f"{at or where}: {first}; it does not run on fake tensors", ON_CPU)
    shapes = ", ".join(f"[{', '.join(map(str, shape))}]" for shape in fault.inputs) if fault else ""
    what = f"{where} raises {type(error).__name__}{f' at {at}' if at else ''}: {first}"
    to_it = f"; it was given {shapes}" if shapes else ""
    hint = f"the inputs are {inputs}; --input states others"
    if fault is not None and fault.class_name == "Embedding" and "indices" in first:
        hint += ", with ids in whole numbers: int64"
    if run_on == "meta" and ("device" in first or "subclass" in first or _is_of_fakes(error)):
        hint = ON_CPU
    return Problem(f"{what}{to_it}", hint)


def _is_of_fakes(error: BaseException) -> bool:
    """Whether torch's machinery of fake tensors raised it, and no shape is at fault."""
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    within = raised_in.relative_to(TORCH).as_posix() if TORCH in raised_in.parents else ""
    return type(error) is not RuntimeError and within.startswith(OF_FAKES)


def their_frames(error: BaseException) -> list[FrameSummary]:
    """The frames of a stranger's code that led to an error, the innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if is_theirs(frame.filename)]


def is_theirs(filename: str) -> bool:
    """Whether a file is neither torch's nor ours, nor Python's own."""
    folders = Path(filename).parents
    standard = STANDARD_LIBRARY in folders and "site-packages" not in Path(filename).parts
    return not standard and not any(folder in folders for folder in NOT_THEIRS) and filename[:1] != "<"
