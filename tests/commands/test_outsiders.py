"""Subcommands that other packages add by entry points of the group `archcli.commands`."""

import sys
from functools import cache
from pathlib import Path

import pytest

from archcli import plugins
from archcli.commands.line import outsiders
from distribution import installed

GUIDE = Path(__file__).parents[2] / "docs" / "extending.md"
SECTION = GUIDE.read_text(encoding="utf-8").partition("## A command in a package of your own")[2]
SIZES = SECTION.partition("```py\n")[2].partition("```")[0]
"""The example of the guide."""


@pytest.fixture(autouse=True)
def site(monkeypatch, tmp_path):
    monkeypatch.setattr(outsiders, "offers", cache(outsiders.offers.__wrapped__))
    monkeypatch.setattr(outsiders, "installed", cache(plugins.installed.__wrapped__))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("sizes_")]:
        del sys.modules[name]


def offered(site, module, place="run", name="sizes", source=SIZES):
    installed(site, f"pkg_{module}", {module: source}, {name: f"{module}:{place}"}, outsiders.GROUP)


def test_a_command_of_a_package_is_run(site, cli):
    offered(site, "sizes_a")
    done = cli("sizes", "gpt2", "--unit", "4")
    assert (done.code, done.out, done.err) == (0, f"gpt2: {124_439_808 * 4:,} bytes\n", "")
    refused = cli("sizes", "gpt2", "--unit", "0")
    assert (refused.code, refused.out) == (2, "")
    assert "at least one byte" in refused.err
    unread = cli("sizes", "gpt2", "--units", "4")
    assert unread.code == 2
    assert "archcli sizes has no option --units" in unread.err
    assert "--unit" in unread.err


def test_help_lists_it_and_imports_nothing(site, cli):
    offered(site, "sizes_b")
    page = cli("-h").out
    assert "Of other packages:\n  sizes  Of the package pkg_sizes_b.\n" in page
    assert "sizes_b" not in sys.modules
    own = cli("sizes", "-h").out
    assert own.startswith("Usage: archcli sizes [OPTIONS]")
    assert "Print the bytes of a model's parameters." in own
    assert "Bytes of a parameter." in own


def test_nothing_is_listed_where_no_package_has_one(cli):
    assert outsiders.TITLE not in cli("-h").out


def test_a_mistyped_name_is_led_to_it(site, cli):
    offered(site, "sizes_c")
    done = cli("sizess", "gpt2")
    assert done.code == 2
    assert "did you mean sizes?" in done.err


REFUSED = {
    "no module": ("sizes_none:run", "ModuleNotFoundError: No module named 'sizes_none'"),
    "no function": ("sizes_d:walk", "AttributeError: module 'sizes_d' has no attribute 'walk'"),
    "no command": ("sizes_d:SIZE", "TypeError"),
}


@pytest.mark.parametrize(("place", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_a_line_of_error(site, cli, place, reason):
    installed(site, "pkg", {"sizes_d": SIZES + "\nSIZE = 3\n"}, {"sizes": place}, outsiders.GROUP)
    done = cli("sizes", "gpt2")
    assert (done.code, done.out) == (2, "")
    assert f"the command sizes of the package pkg ({place}) cannot be used: {reason}" in done.err
    assert cli("params", "gpt2").code == 0


def test_two_packages_with_one_name_are_refused(site, cli):
    offered(site, "sizes_e")
    offered(site, "sizes_f")
    done = cli("sizes", "gpt2")
    assert done.code == 2
    what = "error: the command sizes is offered by pkg_sizes_e and pkg_sizes_f"
    assert done.err == f"{what}\n  = help: uninstall one of them\n"


def test_a_name_of_archclis_own_cannot_be_taken(site, cli):
    offered(site, "sizes_g", name="params")
    assert cli("params", "gpt2").out.startswith("gpt2: 124M parameters")
    assert outsiders.TITLE not in cli("-h").out
