"""Answers the questions of the page "Try it": archcli's command line inside of a browser's worker."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from importlib.abc import MetaPathFinder

gc.disable()  # as archcli/cli.py does: imported modules stay until the end

from archcli.errors import ArchError  # noqa: E402
from archcli.render.findings import complain  # noqa: E402
from archcli.wings.doors.line.ask import ask  # noqa: E402

LATER = {"sympy": "sympy", "mpmath": "sympy"}
"""Packages that the page fetches when they are first imported, and the archive that holds them."""

GARBAGE = 20_000
LOCAL = {"local", "--device=local"}


HERE = "this page does not know your machine: choose a device by its name, or ask archcli on your computer"
NO_NUMPY = "this page has no numpy: archcli on your computer answers the question"


class NeededError(BaseException):
    """A package must be fetched first; no handler of an ImportError may take this for its absence."""


class Later(MetaPathFinder):
    """Stands behind all finders: asked only for what is not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Ask the page for the package, where it is one of those."""
        if name in LATER:
            raise NeededError(LATER[name])


sys.meta_path.append(Later())
gc.freeze()
gc.set_threshold(GARBAGE)
gc.enable()


def answer(argv: list[str], folder: str) -> dict[str, str]:
    """{"kind": "text", "error", "lost" or "needs", "text": what the page gets}; the folder is removed.

    Example: `answer(["params", "gpt2"], "/model")` holds the JSON of `archcli params gpt2 --json`.
    """
    os.chdir(folder)
    try:
        kind, text = answered([str(word) for word in argv])
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    return {"kind": kind, "text": text}


def of_page(error: ArchError) -> ArchError:
    """The error with a hint that is right for a page, in which nothing can be installed."""
    if len(error.problems) != 1 or "pip install" not in error.problems[0].hint:
        return error
    return ArchError(error.problems[0].what, NO_NUMPY)


def answered(argv: list[str]) -> tuple[str, str]:
    """(kind, text) of the answer. An error that is not archcli's own is one line, never a traceback."""
    if LOCAL & {*argv}:
        return "error", complain(ArchError("the device is local", HERE))
    try:
        return "text", ask(argv)
    except NeededError as needed:
        return "needs", str(needed)
    except ArchError as error:
        return "error", complain(of_page(error))
    except (MemoryError, RecursionError):
        return "lost", "a model that this page cannot hold; archcli on your computer can"
    except BaseException as error:  # noqa: BLE001 - whatever it is, the reader gets a line
        said = " ".join(str(error).split())[:200]
        return "error", f"archcli failed inside: {type(error).__name__}: {said}; please report it"
