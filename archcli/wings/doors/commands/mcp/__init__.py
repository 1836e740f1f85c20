"""`archcli mcp`: archcli as tools of an assistant, by the Model Context Protocol."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.errors import ArchError, install
from archcli.interrupts import exit_at_interrupts
from archcli.load.source import is_folder
from archcli.render.write import tell

SDK, GENERATION = "mcp>=2,<3", "2"
Folder = Annotated[
    Path | None,
    Option(
        "Let questions name models by their paths in this folder. Left out, no file is read.",
        metavar="DIR",
    ),
]


def run(*, folder: Folder = None) -> None:
    """Serve archcli as tools of an assistant, over MCP.

    The tools are params, flops, kvcache, memory, predict, fit, check, compare, explain, sweep and draw.
    An assistant starts the server itself, from its settings: see docs/assistants.md. Presets and models given
    in a question are read, no network and no other file. Needs mcp.
    """
    _check_installed()
    if folder is not None and not is_folder(str(folder)):
        raise ArchError(f"no folder {folder}", "name one that is there, or leave --folder out")
    if sys.stdin is None:  # closed by the shell: the end of input
        return
    if sys.stdin.isatty():
        tell("archcli mcp waits for an assistant at its input, which starts it by itself; Ctrl-C ends it.")
    exit_at_interrupts()
    try:
        from archcli.wings.doors.commands.mcp.server import serve  # imports the SDK
    except ImportError as error:  # a package that the SDK needs is missing or broken
        raise ArchError(f"mcp is installed, and cannot be imported: {error}", install(SDK)) from None
    serve(folder)


def _check_installed() -> None:
    """Raise ArchError where the package is missing, or is of another generation."""
    try:
        installed = version("mcp")
    except PackageNotFoundError:
        installed = ""
    # both: a folder mcp in the current one is found as well, and a package may be there without its code
    if not installed or find_spec("mcp") is None:
        raise ArchError("archcli mcp needs mcp, which is not installed", install(SDK))
    if installed.partition(".")[0] != GENERATION:
        raise ArchError(f"archcli mcp needs mcp {GENERATION}, and {installed} is installed", install(SDK))
