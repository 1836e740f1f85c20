"""Tests in a copy of archcli without some wings: what needs one that is not here is left out.

A file that imports a wing, itself or by a helper, is not collected. A test that fails and has asked for a wing
is skipped: by a part of it, a subcommand, a Python function or a field of YAML. Any other failure is one.
See `tests/without_wings.py`.
"""

import ast
from functools import cache

import pytest

from archcli import plugins
from archcli.commands.line import names
from archcli.modules.spec import fields
from stages import helpers, imported_names

ASKED = []
"""What a test has asked of wings that are not here."""
TOLD = ("module 'archcli' has no attribute", "which is not here", "a wing of archcli that is not here")


@cache
def wings_of(path):
    """The wings that a file of the tests imports, also inside functions and by helpers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [name for node in ast.walk(tree) for name in imported_names(ast.Module([node], []))]
    own = {name.split(".")[2] for name in imported if name.startswith("archcli.wings.")}
    beside = {file for name in imported for file in helpers(name)} - {path}
    return frozenset(own.union(*map(wings_of, beside)))


def is_of_absent(path):
    """Whether a file of the tests needs a wing that is not here."""
    return not wings_of(path) <= {*plugins.present()}


class Gone(set):
    """Subcommands that are not here; a question for one is written down."""

    def __contains__(self, name):
        asked = super().__contains__(name)
        ASKED.extend([name] if asked else [])
        return asked


def watch():
    """Write down from now on what is asked of wings that are not here."""
    real_parts, real_refusal = plugins.parts_of, fields._absent

    def parts_of(wing):
        parts = real_parts(wing)
        ASKED.extend([wing] if parts is None else [])
        return parts

    def refuse(value):
        ASKED.append("a field")
        real_refusal(value)

    plugins.parts_of, fields._absent, names.GONE = parts_of, refuse, Gone(names.GONE)


def skipped(report, call):
    """The report of a test, which is skipped where it failed and asked for a wing that is not here."""
    if report.failed and (ASKED or any(text in str(call.excinfo) for text in TOLD)):
        report.outcome, report.wasxfail = "skipped", "needs a wing that is not here"
        report.longrepr = (str(report.fspath), 0, f"asks for {', '.join(dict.fromkeys(ASKED)) or 'a wing'}")
        del report.wasxfail
    return report


@pytest.fixture(autouse=True)
def _nothing_asked():
    ASKED.clear()
