"""How the command starts once more, in a process that has other settings or is measured by itself."""

from __future__ import annotations

import sys
from pathlib import Path

ANYWHERE = ("-P", "-m", "archcli")
"""Options of Python that start archcli and import nothing from the current folder (-P)."""


def program() -> list[str]:
    """The command line that started this process, without the program's own arguments.

    The interpreter and its options (-I, -P, -X) are those of this process, so that modules are looked for
    where this process looked for them. Where archcli is no program of its own, `python -P -m archcli`.
    """
    own = len(sys.orig_argv) - len(sys.argv[1:])
    if not is_program() or sys.orig_argv[own:] != sys.argv[1:]:
        return [sys.executable, *ANYWHERE]
    return [sys.executable, *sys.orig_argv[1:own]]


def is_program() -> bool:
    """Whether this process is the program archcli, not a test or a notebook that calls it."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None) or ""
    return getattr(spec, "name", "") == "archcli.__main__" or Path(file).stem == "archcli"
