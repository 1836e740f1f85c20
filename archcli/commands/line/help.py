"""Help pages, usage errors and near names: typer's commands with archcli's layout."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from archcli.errors import ArchError, closest, either, quote, shorten

if TYPE_CHECKING:
    from archcli.render.help import HelpEntry, HelpSection

COMMANDS_MEANT = {
    **dict.fromkeys(("cache", "kv-cache", "kv_cache"), "kvcache"),
    **dict.fromkeys(("vram", "ram"), "memory"),
    **dict.fromkeys(("latency", "speed", "time", "throughput", "tps"), "predict"),
    **dict.fromkeys(("count", "parameters", "size", "numel"), "params"),
    **dict.fromkeys(("macs", "compute"), "flops"),
    **dict.fromkeys(("bench", "benchmark"), "profile"),
    **dict.fromkeys(("ls", "models", "presets"), "list"),
    **dict.fromkeys(("config", "cat", "print", "info"), "show"),
    **dict.fromkeys(("gpu", "gpus", "hardware"), "devices"),
    **dict.fromkeys(("engine", "servers", "runtimes"), "engines"),
    **dict.fromkeys(("formula", "derive"), "explain"),
    **dict.fromkeys(("fits", "recommend", "run", "choose"), "fit"),
    **dict.fromkeys(("search", "grid"), "sweep"),
    **dict.fromkeys(("diagram", "picture", "visualize", "visualise", "svg", "graph"), "draw"),
    "lint": "check",
    "diff": "compare",
}
"""Subcommands by other names for what they do."""

OPTIONS_MEANT = {
    **dict.fromkeys(("--gpu", "--gpus", "--accelerator", "--hardware", "--card"), ("--device",)),
    **dict.fromkeys(("--vram", "--ram", "--budget", "--gpu-memory"), ("--memory", "--device")),
    **dict.fromkeys(
        ("--ctx", "--ctx-size", "--ctx-len", "--context-length", "--max-model-len", "--max-len"),
        ("--context", "--seq-len"),
    ),
    **dict.fromkeys(("--seq", "--length", "--max-seq-len", "--tokens"), ("--seq-len", "--context")),
    **dict.fromkeys(("--bs", "--bsz", "--batch"), ("--batch-size",)),
    **dict.fromkeys(("--precision", "--quant", "--quantization", "--type"), ("--dtype",)),
    **dict.fromkeys(("--tensor-parallel", "--tensor-parallel-size"), ("--tp",)),
    **dict.fromkeys(("--pipeline-parallel", "--pipeline-parallel-size"), ("--pp",)),
    **dict.fromkeys(("--data-parallel", "--data-parallel-size"), ("--dp",)),
    **dict.fromkeys(("--expert-parallel", "--expert-parallel-size"), ("--ep",)),
    **dict.fromkeys(("--fsdp", "--zero-stage"), ("--zero",)),
    **dict.fromkeys(("--optim",), ("--optimizer",)),
    **dict.fromkeys(
        ("--checkpointing", "--gradient-checkpointing", "--activation-checkpointing"), ("--recompute",)
    ),
    **dict.fromkeys(("--override", "--config", "--param"), ("--set",)),
    **dict.fromkeys(("--filter", "--query", "--if"), ("--where",)),
    **dict.fromkeys(("--mode", "--stage"), ("--phase",)),
    **dict.fromkeys(("--out", "--file"), ("--output",)),
}
"""Options by the names that other tools give them; the first that a command has is meant."""


def near_command(name: str, known: Collection[str]) -> str:
    """A hint for an unknown subcommand: did you mean kvcache? Empty where none is near."""
    meant = COMMANDS_MEANT.get(name.lower())
    return _question([meant] if meant else _near(name, known))


def near_option(name: str, known: Collection[str]) -> str:
    """A hint for an option that a command does not have; empty where none is near."""
    lower = name.lower().replace("_", "-")
    meant = [option for option in OPTIONS_MEANT.get(lower, ()) if option in known][:1]
    return _question(meant or _near(lower, [option for option in known if option.startswith("--")]))


def _near(name: str, known: Collection[str]) -> list[str]:
    """Names that begin so, else those spelled alike."""
    begins = [word for word in known if len(name.strip("-")) > 1 and word.startswith(name.lower())]
    return begins[:3] or closest(name, known)


def _question(names: list[str]) -> str:
    return f"did you mean {either(names)}?" if names else ""


# click's, or that of typer's own copy of click (0.29 has one): a class that typer exports leads to it
UsageError: type[Exception] = typer.BadParameter.mro()[1]
"""What typer raises of arguments it cannot read."""


class PagedCommand(TyperCommand):
    """A subcommand whose help is a page of archcli's."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: usage, description, arguments and options."""
        formatter.write(_page(self, ctx, []))


class PagedGroup(TyperGroup):
    """The program; its help lists every subcommand in a line, below the title of its group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: usage, description, subcommands by group, options."""
        formatter.write(_page(self, ctx, _by_group(self.commands)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that the arguments name; ArchError with a near name for one that is none."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            hint = near_command(args[0], self.commands) or f"{ctx.command_path} -h lists them"
            raise ArchError(f"no command {quote(args[0])}", hint)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line and exit; ArchError for arguments that typer refuses."""
        try:
            # in standalone mode typer prints errors in a form of its own and exits
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            raise _archcli_error(error) from None
        sys.exit(code if isinstance(code, int) else 0)


def _archcli_error(error: Any) -> ArchError:
    """A usage error in archcli's form, with the help page to look at."""
    path = error.ctx.command_path if error.ctx else "archcli"
    unknown = getattr(error, "option_name", "")
    if unknown and error.ctx:
        known = [name for param in error.ctx.command.params for name in param.opts + param.secondary_opts]
        hint = near_option(unknown, known) or f"{path} -h describes the arguments"
        return ArchError(f"{path} has no option {shorten(unknown)}", hint)
    # typer 0.29 lets pydantic put "Value error," before what we say
    message = error.format_message().replace(": Value error, ", ": ").rstrip(".")
    return ArchError(message, f"{path} -h describes the arguments")


def _by_group(commands: Mapping[str, Any]) -> list[HelpSection]:
    from archcli.render.help import HelpEntry, HelpSection

    entries: dict[str, list[HelpEntry]] = {}
    widest = max(map(len, commands))
    for name, command in commands.items():
        first_line = inspect.cleandoc(command.help).partition("\n")[0]
        entries.setdefault(command.rich_help_panel, []).append(HelpEntry(name.ljust(widest), first_line))
    return [HelpSection(title, listed) for title, listed in entries.items()]


def _page(command: Any, ctx: Any, commands: list[HelpSection]) -> str:
    """The page of a command, as wide as the terminal."""
    from archcli.render.help import HelpSection, help_page

    entries: dict[str, list[HelpEntry]] = {"argument": [], "option": []}
    for param in command.get_params(ctx):
        entry = help_entry(param, ctx)
        if entry is not None:
            entries[param.param_type_name].append(entry)
    arguments, options = (
        HelpSection("Arguments", entries["argument"]),
        HelpSection("Options", entries["option"]),
    )
    sections = [section for section in (arguments, *commands, options) if section.entries]
    usage = " ".join(["Usage:", ctx.command_path, *command.collect_usage_pieces(ctx)])
    return help_page(usage, inspect.cleandoc(command.help), sections, shutil.get_terminal_size().columns)


def help_entry(param: Any, ctx: Any) -> HelpEntry | None:
    """The line of an argument or option: its name and meaning; None for a hidden one."""
    from archcli.render.help import HelpEntry

    record = param.get_help_record(ctx)
    if record is None:
        return None
    # typer appends the Python type to an argument, and sets a stated default in parentheses
    name = record[0].partition(" ")[0] if param.param_type_name == "argument" else record[0]
    return HelpEntry(name, re.sub(r"\[default: \((.*)\)(.*)\]$", r"[default: \1\2]", record[1]))
