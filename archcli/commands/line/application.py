"""The command line: its subcommands, its own options, and its errors as text and exit codes.

Only the subcommand that is named is imported; help, versions and a mistyped name import none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from archcli import __version__
from archcli.commands.line import completion
from archcli.commands.line.help import PagedCommand, PagedGroup
from archcli.commands.line.names import COMMANDS, HELP, place_of
from archcli.commands.line.options import Run
from archcli.commands.line.parameters import as_command
from archcli.errors import ArchError
from archcli.plugins import imported
from archcli.render.write import check_standard_output, tell

# the exit code that typer, too, gives for a wrong option
BAD_INPUT = 2
BESIDE = ("torch", "transformers")
"""Packages whose versions --version names where they are installed, as figures depend on them."""


def _print_version(wanted: bool) -> None:
    if wanted:
        import platform

        packages = [f"{name} {release}" for name in BESIDE if (release := _release(name))]
        runs_on = ", ".join([f"Python {platform.python_version()}", *packages])
        typer.echo(f"archcli {__version__} ({runs_on})")
        raise typer.Exit


def _release(package: str) -> str:
    """The version of a package, read without importing it; empty where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def archcli(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the versions of archcli, Python, torch and transformers, and exit.",
        ),
    ] = False,
) -> None:
    """Answer five questions about a language model: its size, fit, speed, shape and time.

    That is: how large it is, whether it fits on a GPU, how fast it runs there, whether its shape is sane,
    and where its time goes. `flops --image 448x448` says how many tokens and FLOPs an image costs. Counts
    are exact integers, and need no weights and no torch.

    `archcli COMMAND -h` describes a command. MODEL is a YAML or config.json file, a preset such as gpt2, or
    org/name on the hub. `summary` and others take a torch module of yours: pkg.module:function.

    Without installing, the page Try it of the docs runs archcli in a browser; `archcli mcp` answers
    assistants.
    """


def application(args: Sequence[str]) -> typer.Typer:
    """The command line with the subcommand that the arguments name, or with the names of all."""
    completes = completion.is_asked()
    line = completion.finished_words() if completes else args
    named = next((word for word in line if not word.startswith("-")), "")
    if named in COMMANDS:
        return _program({named: imported(_place(named, line))}, completes=completes)
    return _program(dict.fromkeys(COMMANDS, _not_imported))


def every_command() -> typer.Typer:
    """The command line with all subcommands and their options, as pages and tests read them."""
    return _program({name: imported(_place(name, ())) for name in COMMANDS})


def _not_imported() -> None:
    """Stands for a subcommand where its name and its line of help suffice."""


def _program(commands: Mapping[str, Run], *, completes: bool = True) -> typer.Typer:
    """The command line of some subcommands; `completes`, with the options of a shell's completion."""
    app = typer.Typer(
        cls=PagedGroup,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=completes,
        # typer would print tracebacks in a form of its own
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(archcli)
    for name, run in commands.items():
        line = HELP[name] if run is _not_imported else None
        app.command(name, cls=PagedCommand, help=line, rich_help_panel=COMMANDS[name])(as_command(run))
    return app


def _place(name: str, line: Sequence[str]) -> str:
    """The place of a subcommand's function; `profile -- python train.py` has one of its own."""
    if name == "profile" and "--" in line:
        from archcli.commands.line.programs import is_program

        if is_program(line):
            return place_of(name).replace(":", ".program:")
    return place_of(name)


def exit_code(app: typer.Typer, args: list[str]) -> int:
    """Run the command line. Bad input prints a message and gives 2; other exceptions are raised."""
    try:
        return _run(app, args)
    except ArchError as error:
        from archcli.render.findings import complain

        tell(complain(error))
        return BAD_INPUT


def _run(app: typer.Typer, args: list[str]) -> int:
    if len(args) > 1 and args[0] in completion.SCRIPTS:
        os.environ[completion.NAMED_SHELL] = "1"
    completion.check_environment()
    if args[:1] == ["profile"] and "--" not in args and any("py" in word for word in args):
        from archcli.commands.line.programs import check_separator

        check_separator(args)
    try:
        return app(args or ["--help"], prog_name="archcli", standalone_mode=False) or 0
    except OSError:
        check_standard_output()
        raise
