"""`archcli mcp`: archcli as tools of an assistant, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from archcli.commands.line.interrupts import exit_at_interrupts
from archcli.errors import ArchError, install

SDK = "mcp>=2,<3"
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Let questions name models by their paths in this folder. Left out, no file is read.",
    ),
]


def run(*, folder: Folder = None) -> None:
    """Serve archcli as tools of an assistant, over MCP.

    The tools are params, flops, kvcache, memory, predict, fit, check, compare, explain, sweep and draw.
    An assistant starts the server itself, from its settings: see docs/assistants.md. Presets and models given
    in a question are read, no network and no other file. Needs mcp.
    """
    if find_spec("mcp") is None:
        raise ArchError("archcli mcp needs mcp, which is not installed", install(SDK))
    if folder is not None and not folder.is_dir():
        raise ArchError(f"no folder {folder}", "name one that is there, or leave --folder out")
    exit_at_interrupts()
    from archcli.commands.mcp.server import serve  # imports the SDK

    serve(folder)
