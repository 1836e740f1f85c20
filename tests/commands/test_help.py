"""Help pages at any width: whole words, whole lines, every subcommand in one line."""

import importlib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from archcli.commands.line.application import application, every_command
from archcli.commands.line.names import COMMANDS, GROUPS
from archcli.commands.line.pages import EXAMPLES, HEADINGS
from archcli.render import help as pages
from table import every_row

PAGES = [(), *((command,) for command in COMMANDS)]
WIDTHS = (40, 80, 200)
CONFIGS = Path(__file__).parents[1] / "oracle" / "configs"


def page_of(cli, monkeypatch, width, *command):
    monkeypatch.setenv("COLUMNS", str(width))
    done = cli(*command, "-h")
    assert (done.code, done.err) == (0, "")
    return done.out


def words(page):
    """Words; choices such as `<all|last>` may stand on two lines."""
    return re.split(r"\s+|(?<=\|)", page)


@every_row("width", WIDTHS)
@every_row("command", PAGES, ids=" ".join)
def test_no_line_is_cut_and_no_word_is_broken(cli, monkeypatch, command, width):
    page = page_of(cli, monkeypatch, width, *command)
    with monkeypatch.context() as wide:
        wide.setattr(pages, "WIDEST", 100_000)
        unfolded = page_of(cli, wide, 100_000, *command)
    assert max(map(len, page.splitlines())) <= min(width, 80)
    assert "".join(page.split()) == "".join(unfolded.split())
    assert set(words(page)) == set(words(unfolded))
    assert "…" not in page


def test_every_subcommand_has_a_line_below_its_group(cli, monkeypatch):
    lines = page_of(cli, monkeypatch, 80).splitlines()
    for group, commands in GROUPS.items():
        first = lines.index(f"{group}:") + 1
        listed = [line.split(maxsplit=1) for line in lines[first : first + len(commands)]]
        assert [name for name, _ in listed] == list(commands)
        assert all(meaning.endswith(".") for _, meaning in listed)
    assert sorted(COMMANDS) == sorted(name for names in GROUPS.values() for name in names)


def test_the_listed_lines_are_the_first_lines_of_the_commands():
    for group, commands in GROUPS.items():
        for name, line in commands.items():
            run = importlib.import_module(f"archcli.commands.{name}").run
            assert (group, name, line) == (group, name, inspect.getdoc(run).partition("\n")[0])


IMPORTED = """
import sys
from archcli.commands.line.application import application, exit_code
try:
    exit_code(application(sys.argv[1:]), sys.argv[1:])
except SystemExit:
    pass
print(sorted(name for name in sys.modules if name.startswith(("archcli.api.", "archcli.modules.models"))))
"""


@every_row("line", ["--version", "-h", "parms gpt2", "help", ""])
def test_help_versions_and_a_mistyped_command_import_no_command(line):
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED, *line.split()],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    allowed = ["archcli.api.asking", "archcli.api.asking.question"]
    assert ran.stdout.splitlines()[-1] == str(allowed)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_begins_with_the_line_of_the_list(cli, monkeypatch, command):
    line = next(line for line in page_of(cli, monkeypatch, 80).splitlines() if line.split()[:1] == [command])
    assert line.split(maxsplit=1)[1] in page_of(cli, monkeypatch, 80, command)


def test_code_and_defaults_stay_on_one_line(cli, monkeypatch):
    page = page_of(cli, monkeypatch, 40, "check")
    assert "`# archcli: ignore[FFN001]`" in page
    assert "[default: warning]" in page
    assert "x>=1" not in page


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("params", (), "Missing argument 'MODEL'"),
        (
            "check",
            ("gpt2", "--tp", "0"),
            "Invalid value for '--tp': tp must be a whole number above 0, not 0",
        ),
        ("schema", ("--of", "x"), "Invalid value for '--of': 'x' is not one of 'yaml', 'profile'"),
    ],
)
def test_a_wrong_argument_is_an_error_like_any_other(cli, command, args, message):
    shown = f"error: {message}\n  = help: archcli {command} -h describes the arguments\n"
    assert cli(command, *args) == (2, "", shown)


def test_every_command_has_three_examples():
    assert {*EXAMPLES} == {*COMMANDS}
    assert {len(examples) for examples in EXAMPLES.values()} == {3}


LINES = [line for examples in EXAMPLES.values() for line in examples if line.startswith("archcli ")]
ELSEWHERE = {"mcp", "profile", "verify", "report", "draw", "plot", "summary", "check", "fit"}
"""Commands whose examples need a file, torch, or seconds each."""


@every_row("line", [line for line in LINES if " -- " not in line])
def test_an_example_has_options_that_there_are(line):
    _, name, *rest = shlex.split(line)
    typer.main.get_command(application([name])).commands[name].make_context(name, rest)


@pytest.mark.long
@pytest.mark.parametrize("line", [line for line in LINES if line.split()[1] not in ELSEWHERE])
def test_an_example_is_answered(cli, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text((CONFIGS / "llama-3.1-8b.json").read_text())
    done = cli(*shlex.split(line)[1:])
    assert (done.code, done.err.count("error")) == (0, 0)


def test_a_long_list_of_options_stands_under_headings(cli, monkeypatch):
    page = page_of(cli, monkeypatch, 80, "memory")
    titles = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    assert titles == ["Examples", "Arguments", "Options", *HEADINGS]
    assert re.findall(r"^(\S.*):$", page_of(cli, monkeypatch, 80, "rules"), re.MULTILINE) == [
        "Examples",
        "Options",
    ]


def test_every_parameter_below_a_heading_is_one_of_a_command():
    commands = typer.main.get_command(every_command()).commands.values()
    known = {param.name for command in commands for param in command.params}
    assert {name for names in HEADINGS.values() for name in names} <= known
