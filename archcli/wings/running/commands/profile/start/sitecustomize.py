"""Python imports this file before the user's program runs; it waits for the program's import of torch.

`archcli profile -- python train.py` puts this folder in front of PYTHONPATH and execs `python train.py`. So
arguments, `__main__`, sys.path[0], signals, exit code and terminal are those of the program. PYTHONPATH is
restored at once: processes that the program starts are not watched.

Before the program imports torch, only light modules of the standard library are imported: the program may yet
set variables that torch reads at its import (CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS).
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

VARIABLE = "ARCHCLI_PROGRAM"
"""The environment variable with the options and the original PYTHONPATH, as JSON."""
NAME = "sitecustomize"
"""The module that Python imports by itself where it finds one: docs.python.org/3/library/site.html."""
TORCH, COMPILER = "torch", "torch._inductor.compile_fx"
OUR_IMPORTS = sys.stdlib_module_names | {"rich", "yaml"}
"""Modules that archcli imports, torch aside: a file of the program may have such a name."""
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes long
HERE = sys.modules.get(__name__)
PACKAGE = FOLDER.rpartition(f"{os.sep}wings{os.sep}")[0]


class _Own:
    """Finds archcli by the place of this file: the program's Python may not have it installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The package archcli; None for any other name."""
        if name != "archcli":
            return None
        from importlib.util import spec_from_file_location

        file = os.path.join(PACKAGE, "__init__.py")  # noqa: PTH118
        return spec_from_file_location(name, file, submodule_search_locations=[PACKAGE])


class _Undisturbed:
    """While archcli imports, hide files of the program that are named like modules archcli needs.

    A `statistics.py` beside train.py is the program's, and is imported by it alone.
    """

    def __enter__(self) -> None:
        self.path, self.before = sys.path[:], {*sys.modules}
        standard = os.path.dirname(os.__file__)  # noqa: PTH120
        first = sys.path[: sys.path.index(standard)] if standard in sys.path else []
        named = {folder: _names_in(folder) & OUR_IMPORTS for folder in first}
        self.names = {name for names in named.values() for name in names}
        hiding = [folder for folder, names in named.items() if names]
        self.theirs = {
            name: module
            for name, module in [*sys.modules.items()]
            if name.partition(".")[0] in self.names and _is_in(module, hiding)
        }
        for name in self.theirs:
            del sys.modules[name]
        sys.path[:] = [folder for folder in sys.path if folder not in hiding]

    def __exit__(self, *_: object) -> None:
        for name in {*sys.modules} - self.before | self.theirs.keys():
            if name.partition(".")[0] in self.names:
                sys.modules.pop(name, None)
        sys.modules.update(self.theirs)
        sys.path[:] = self.path


def _names_in(folder: str) -> set[str]:
    """The modules and packages of a folder of sys.path, by name."""
    try:
        return {name.partition(".")[0] for name in os.listdir(folder or ".")}  # noqa: PTH208
    except OSError:
        return set()


def _is_in(module: Any, folders: list[str]) -> bool:
    try:
        places = tuple(os.path.abspath(folder) for folder in folders)  # noqa: PTH100
        return bool(module.__file__.startswith(places))
    except Exception:  # noqa: BLE001 - a module may be any object
        return False


class _Awaited:
    """Calls archcli after the program has imported torch, and torch's compiler."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self.failures = options, list[str]()
        self.names = {TORCH, COMPILER}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of another finder, with a loader that then calls archcli; None for other modules."""
        if name not in self.names:
            return None
        others = (it for it in sys.meta_path if it is not self and hasattr(it, "find_spec"))
        specs = (it.find_spec(name, path, target) for it in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            # not before: a program may only ask whether torch is there, as transformers does
            if name in self.names:
                self.names.remove(name)
                self.imported(name)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def imported(self, name: str) -> None:
        """Begin to watch, or to record compiled graphs; an error must not reach the program."""
        # remove this module now, as a program without archcli has none; earlier the import system needs it
        if name == TORCH and sys.modules.get(NAME) is HERE:
            del sys.modules[NAME]
        try:
            with _Undisturbed():
                from archcli.wings.running.api.profiling import program

                if name == TORCH:
                    program.begin(self.options)
                else:
                    program.compiles()
        except Exception as problem:  # noqa: BLE001 - the program goes on
            self.failures.append(f"{type(problem).__name__}: {problem}")

    def finish(self, process: int) -> None:
        """Report at the end of the program; not in a forked child."""
        if os.getpid() != process:
            return
        try:
            with _Undisturbed():
                from archcli.wings.running.api.profiling import program

                program.finish()
        except Exception as problem:  # noqa: BLE001 - the exit code is the program's
            why = self.failures[0] if self.failures else f"{type(problem).__name__}: {problem}"
            if sys.__stderr__ is not None:  # the shell may have closed it
                sys.__stderr__.write(f"archcli: nothing was watched: {why}\n")


def _start() -> None:
    """Leave no trace in path and environment, and wait for torch."""
    import json

    handed_down = json.loads(os.environ.pop(VARIABLE))
    if handed_down["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = handed_down["pythonpath"]
    sys.path[:] = [place for place in sys.path if place != FOLDER]
    sys.meta_path.insert(0, _Own())
    awaited = _Awaited(handed_down["options"])
    sys.meta_path.insert(0, awaited)
    if TORCH in sys.modules:  # imported by a .pth file
        awaited.names.remove(TORCH)
        awaited.imported(TORCH)
    # registered before any handler of the program, and so called after all of them (last in, first out)
    atexit.register(awaited.finish, os.getpid())
    # last, as it may raise: Python prints that, and goes on
    _import_other()


def _import_other() -> None:
    """Import the sitecustomize that this one hides: some systems have one."""
    here = sys.modules.pop(NAME, None)
    try:
        __import__(NAME)
    except ModuleNotFoundError as missing:
        if missing.name != NAME:
            raise
    finally:
        if here is not None:
            # the import system looks for it when this file has run
            sys.modules.setdefault(NAME, here)


if __name__ == NAME and VARIABLE in os.environ:
    _start()
