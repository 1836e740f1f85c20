"""Tests in a copy of archcli without some wings: what needs one that is not here is left out.

A file that imports a wing, itself or by a helper, is not collected. A test that fails is skipped where it
asked for a wing: for a part of it, a subcommand, a Python function, a class or a field; or where NAMED says
so. Any other failure is one. See `tests/without_wings.py`.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

from archcli import plugins
from archcli.commands.line import names
from archcli.modules.spec import fields
from stages import helpers, imported_names

ASKED = []
"""What a test has asked of wings that are not here."""
TOLD = (
    "module 'archcli' has no attribute",
    "module 'archcli.modules' has no attribute",
    "No module named 'archcli.wings",
    "from 'archcli",  # cannot import name
    "that is not here",
    "which is not here",
)
"""Texts of errors of what is not here."""
WHOLE = ("every wing",)
NAMED = {
    **dict.fromkeys(("test_contributing", "test_help", "test_listings", "test_wings"), WHOLE),
    "test_golden::test_the_schema_of_the_presets_is_the_one_printed": WHOLE,
    "test_golden::test_the_table_of_keys": WHOLE,
    "test_outsiders::test_a_bad_entry_point_is_one_clear_error": ("media",),
    **dict.fromkeys(("test_import_2", "test_image_kinds", "test_known_keys", "test_towers"), ("media",)),
    "test_real_files::test_a_file_is_answered_with_the_known_total": ("media",),
    "test_cli::test_names_of_other_tools_stand_for_commands_and_options_that_there_are": WHOLE,
    "test_completion::test_a_module_of_ones_own_is_completed_without_its_import": ("running",),
    "test_text": ("drawing",),
    "test_worked_passes": ("serving",),
}
"""Wings of files and tests that name what they have by a text alone, such as a model_type or a file."""


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


def skipped(report, told):
    """The report of a test or file: skipped where it failed and asked for a wing that is not here."""
    file = Path(report.nodeid.partition("::")[0]).stem
    test = f"{file}::{report.nodeid.partition('::')[2].partition('[')[0]}"
    named = {*NAMED.get(file, ()), *NAMED.get(test, ())} - {*plugins.present()}
    if report.failed and (ASKED or named or any(text in told for text in TOLD)):
        report.outcome = "skipped"
        report.longrepr = (file, 0, f"asks for {', '.join(dict.fromkeys(ASKED)) or 'a wing'}")
    return report


@pytest.fixture(autouse=True)
def _nothing_asked():
    ASKED.clear()
