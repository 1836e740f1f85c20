"""Help pages and usage errors: typer's commands with archcli's layout."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from archcli.commands.line.names import near_command, near_option, usage_hint
from archcli.errors import ArchError, quote, shorten

if TYPE_CHECKING:
    from archcli.render.help import HelpEntry, HelpSection

# click's, or that of typer's own copy of click (0.29 has one): a class that typer exports leads to it
UsageError: type[Exception] = typer.BadParameter.mro()[1]
"""What typer raises of arguments it cannot read."""


class PagedCommand(TyperCommand):
    """A subcommand whose help is a page of archcli's."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: usage, description, arguments and options."""
        formatter.write(_page(self, ctx, []))

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the command, with the further names of options that its help leaves out."""
        parser: Any = super().make_parser(ctx)
        also: Mapping[str, Sequence[str]] = getattr(self.callback, "also", {})
        for param in self.get_params(ctx):
            if names := also.get(param.name or ""):
                parser.add_option(obj=param, opts=names, dest=param.name, action="store", nargs=param.nargs)
        return parser


class PagedGroup(TyperGroup):
    """The program; its help lists every subcommand in a line, below the title of its group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: usage, description, subcommands by group, options."""
        formatter.write(_page(self, ctx, [*_by_group(self.commands), *_of_outsiders()]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that the arguments name. Raises ArchError with a near name for a mistyped one."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            from archcli.commands.line.outsiders import command_of, offers  # of names that are not archcli's

            if args[0] not in offers():
                hint = near_command(args[0], [*self.commands, *offers()])
                raise ArchError(f"no command {quote(args[0])}", hint or f"{ctx.command_path} -h lists them")
            self.add_command(command_of(args[0], PagedCommand), args[0])
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line and exit; ArchError for arguments that typer refuses."""
        try:
            # in standalone mode typer prints errors in a form of its own and exits
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            raise _archcli_error(error, [*(args[0] if args else options.get("args") or ())]) from None
        sys.exit(code if isinstance(code, int) else 0)


def _archcli_error(error: Any, args: Sequence[str]) -> ArchError:
    """A usage error in archcli's form, with the help page to look at."""
    path = error.ctx.command_path if error.ctx else "archcli"
    unknown = getattr(error, "option_name", "")
    params = error.ctx.command.params if error.ctx else []
    known = [name for param in params for name in param.opts + param.secondary_opts]
    if unknown and error.ctx:
        hint = near_option(unknown, known) or f"{path} -h describes the arguments"
        return ArchError(f"{path} has no option {shorten(unknown)}", hint)
    # typer 0.29 lets pydantic put "Value error," before what we say
    message = error.format_message().replace(": Value error, ", ": ").rstrip(".")
    return ArchError(message, usage_hint(message, path, known, args))


def _by_group(commands: Mapping[str, Any]) -> list[HelpSection]:
    from archcli.render.help import HelpEntry, HelpSection

    entries: dict[str, list[HelpEntry]] = {}
    widest = max(map(len, commands))
    for name, command in commands.items():
        first_line = inspect.cleandoc(command.help).partition("\n")[0]
        entries.setdefault(command.rich_help_panel, []).append(HelpEntry(name.ljust(widest), first_line))
    return [HelpSection(title, listed) for title, listed in entries.items()]


def _of_outsiders() -> list[HelpSection]:
    """The subcommands of other packages, listed without importing any."""
    from archcli.commands.line.outsiders import TITLE, offers, packages
    from archcli.render.help import HelpEntry, HelpSection

    listed = [HelpEntry(name, f"Of the package {packages(name)}.") for name in offers()]
    return [HelpSection(TITLE, listed)] if listed else []


def _page(command: Any, ctx: Any, commands: list[HelpSection]) -> str:
    """The page of a command, as wide as the terminal."""
    from archcli.commands.line.pages import EXAMPLES, under_headings
    from archcli.render.help import HelpEntry, HelpSection, help_page

    arguments: list[HelpEntry] = []
    options: list[tuple[str, HelpEntry]] = []
    for param in command.get_params(ctx):
        entry = help_entry(param, ctx)
        if entry is not None and param.param_type_name == "argument":
            arguments.append(entry)
        elif entry is not None:
            options.append((param.name, entry))
    examples = [HelpEntry(line, meaning) for line, meaning in EXAMPLES.get(command.name, {}).items()]
    headed = [HelpSection(title, entries) for title, entries in under_headings(options).items()]
    sections = [HelpSection("Examples", examples, stacked=True), HelpSection("Arguments", arguments)]
    sections += [*commands, *headed]
    shown = [section for section in sections if section.entries]
    usage = " ".join(["Usage:", ctx.command_path, *command.collect_usage_pieces(ctx)])
    return help_page(usage, inspect.cleandoc(command.help), shown, shutil.get_terminal_size().columns)


def help_entry(param: Any, ctx: Any) -> HelpEntry | None:
    """The line of an argument or option: its name and meaning; None for a hidden one."""
    from archcli.render.help import HelpEntry

    record = param.get_help_record(ctx)
    if record is None:
        return None
    # typer appends the Python type to an argument, and sets a stated default in parentheses
    name = record[0].partition(" ")[0] if param.param_type_name == "argument" else record[0]
    return HelpEntry(name, re.sub(r"\[default: \((.*)\)(.*)\]$", r"[default: \1\2]", record[1]))
