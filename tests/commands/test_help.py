"""Help pages at any width: whole words, whole lines, every subcommand in one line."""

import re

import pytest

from archcli.commands.line.names import COMMANDS, GROUPS
from archcli.render import help as pages
from table import every_row

PAGES = [(), *((command,) for command in COMMANDS)]
WIDTHS = (40, 80, 200)


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
