"""Subcommands of other packages: functions that installed distributions offer by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from archcli.commands.line.names import COMMANDS
from archcli.errors import ArchError
from archcli.plugins import installed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "archcli.commands"
TITLE = "Of other packages"


@cache
def offers() -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points by subcommand, in alphabetical order; a name of archcli's own is nobody else's."""
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in sorted(installed(GROUP), key=lambda entry: entry.name):
        if entry.name not in COMMANDS:
            by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def packages(name: str) -> str:
    """The distributions that offer a subcommand: sizes, or sizes and more-sizes."""
    return " and ".join(sorted(entry.dist.name if entry.dist else "?" for entry in offers()[name]))


def command_of(name: str, cls: type) -> Any:
    """The typer command of a subcommand, of a class.

    Raises ArchError where two packages offer it, and where it cannot be imported or read as a command.
    """
    import typer

    from archcli.commands.line.parameters import as_command

    entry, *others = offers()[name]
    if others:
        raise ArchError(f"the command {name} is offered by {packages(name)}", "uninstall one of them")
    app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, add_completion=False)
    try:
        run = entry.load()
        app.command(name, cls=cls, help=run.__doc__ or f"Of the package {packages(name)}.")(as_command(run))
        return typer.main.get_command(app)
    except Exception as error:  # an outsider's code may raise anything
        what = f"the command {name} of the package {packages(name)} ({entry.value}) cannot be used"
        raise ArchError(f"{what}: {type(error).__name__}: {error}") from error
