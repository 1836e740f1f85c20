"""The command line: its subcommands, and how errors become lines on stderr and exit codes.

Only the subcommand that is named is imported; help and shell completion import all of them.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Annotated

import typer

from archcli.commands._help import PagedCommand, PagedGroup
from archcli.errors import ArchError

INTERRUPTED = 130  # what a shell reports of a program that SIGINT ended: 128 + 2

# A subcommand is the function `run` of archcli/commands/NAME.py; its docstring is its help, and the first
# line of that stands in the list of subcommands.
GROUPS = {
    "Count": ("params", "flops", "kvcache", "compare"),
    "Judge": ("check", "rules", "rule"),
    "Measure": ("profile", "plot", "verify"),
    "Look": ("list", "survey", "show", "families", "schema"),
}
COMMANDS = {name: group for group, names in GROUPS.items() for name in names}


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"archcli {version('archcli')}")
        raise typer.Exit


def archcli(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Exact parameters, FLOPs and KV cache of a transformer, and where its time goes.

    `archcli COMMAND -h` describes a command. MODEL is a file, a preset such as gpt2, or org/name on the hub.
    """


def application(args: list[str]) -> typer.Typer:
    """The command line with the subcommand that the arguments name, or with all."""
    named = next((arg for arg in args if not arg.startswith("-")), "")
    app = typer.Typer(
        cls=PagedGroup,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=not named,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(archcli)
    for name in (named,) if named in COMMANDS else COMMANDS:
        command = app.command(name, cls=PagedCommand, rich_help_panel=COMMANDS[name])
        command(import_module(f"archcli.commands.{name}").run)
    return app


def main() -> None:
    """Run the command line. Exit code 2 for bad input; other exceptions keep their traceback."""
    gc.disable()  # imported modules stay until the end: looking for garbage in them took a tenth of a start
    try:
        app = application(sys.argv[1:])
        gc.freeze()
        gc.enable()
        app(sys.argv[1:] or ["--help"], prog_name="archcli")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ArchError as error:
        from archcli.render.findings.problems import complain

        typer.echo(complain(error), err=True)
        sys.exit(2)
