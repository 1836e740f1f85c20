"""Where the Python module of `pkg.module:function` lies, looked up before torch is imported.

Nothing is run here: `runtime/own/source.py` imports the module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pkgutil import iter_modules

from archcli.errors import ArchError, closest, either, quote


@contextmanager
def import_path(*, here: bool) -> Iterator[None]:
    """Let imports search the working directory within the block, or not."""
    before = list(sys.path)
    cwd = _working_directory()
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


def only_here(name: str, *, here: bool) -> bool:
    """Whether `pkg.module:function` is to be looked for in the working directory, too.

    So it is where that alone has the package. Raises ArchError where none has it.
    """
    package = name.partition(":")[0].partition(".")[0]
    with import_path(here=here):
        if package in sys.modules or find_spec(package) is not None:
            return here
    if not here and package in modules_in([_working_directory()]):
        return True
    raise no_module(package, here=here)


def no_module(missing: str, *, here: bool = False) -> ArchError:
    """The error for a package that is not there, with those near its name."""
    parent, _, last = missing.rpartition(".")
    if parent:
        near = closest(last, modules_in(vars(sys.modules[parent]).get("__path__", [])))
    else:
        near = (closest(last, modules_in([_working_directory()])) if here else []) or closest(
            last, modules_in(None)
        )
    what = f"no module {quote(missing)} to import"
    if near:
        return ArchError(what, f"did you mean {either(f'{parent}.{word}'.lstrip('.') for word in near)}?")
    return ArchError(what, "is it installed, in this folder, or its folder on PYTHONPATH?")


def modules_in(folders: Iterable[str] | None) -> list[str]:
    """The modules in these folders; without any, those that can be imported."""
    return [module.name for module in iter_modules(folders) if not module.name.startswith("_")]


def _working_directory() -> str:
    return str(os.getcwd())  # noqa: PTH109 - as Python writes it into sys.path
