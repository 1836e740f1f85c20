"""Every rule passes what it calls valid, stops at what it calls invalid, and says where it is from.

Presets break none but the known.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from archcli.load.presets import presets
from archcli.load.source import load, load_text
from archcli.rules import all_rules
from archcli.rules.base import Case, Severity
from archcli.rules.document import as_page
from archcli.rules.lint import Selection, lint
from table import every_row, sampled_rows

ROOT = Path(__file__).parents[2]
RULES = all_rules()
every_rule = every_row("rule", RULES.values(), ids=RULES)


def findings(rule, text):
    loaded = load_text(text, "example.yaml", strict=False)
    case = Case(loaded.model, loaded.conflicts, rule.parallel)
    return [] if rule.counts and case.conflicts else list(rule.check(case))


@cache
def broken_by(name):
    """The codes a preset breaks, information left out."""
    loaded = load(name)
    return {
        found.rule.code
        for found in lint(Case(loaded.model), Selection())
        if found.rule.severity is not Severity.INFO
    }


@pytest.mark.long
@every_rule
def test_a_rule_passes_its_valid_examples(rule):
    assert rule.valid
    for text in rule.valid:
        assert not findings(rule, text), text


@every_rule
def test_a_rule_stops_at_each_invalid_example_once_and_says_why(rule):
    assert rule.invalid
    for text in rule.invalid:
        [found] = findings(rule, text)
        assert found.message
        assert found.path
        assert not found.message.endswith(".")


@every_rule
def test_a_valid_example_is_a_model(rule):
    for text in rule.valid:
        load_text(text, "example.yaml")


SURE = r"\b(confirmed|derived|corrected|secondary|a slide|not checked)\b"
SOURCES = rf"arXiv:\d{{4}}\.\d{{4,5}}|config|README|modules|archcli|GPT-2|nanoGPT|CS336|{SURE}"


@every_rule
def test_a_rule_says_why_and_by_which_source(rule):
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code), "a code has three capitals and three digits"
    assert rule.reason.endswith("."), "a reason is a sentence"
    assert not rule.title.endswith("."), "a title has no full stop"
    assert is_source(rule.source), f"{rule.source!r} names no paper, and does not say how sure it is: {SURE}"


def is_source(text):
    """Whether it can be looked up, or says how sure it is."""
    return re.search(SOURCES, text) is not None


@every_row("text", ["arithmetic (derived)", "arXiv:2002.05202 (confirmed)", "a talk (not checked)"])
def test_a_source_may_be_arithmetic(text):
    assert is_source(text)


@every_row("text", ["", "common knowledge", "arithmetic", "(underived)"])
def test_a_source_that_nobody_can_look_up_is_none(text):
    assert not is_source(text)


@every_rule
def test_a_fix_ends_the_finding(rule):
    for text in rule.invalid:
        [found] = findings(rule, text)
        overrides = [f"{fix.path}={fix.value}" for fix in found.fixes]
        if overrides:
            mended = load_text(text, "example.yaml", overrides, strict=False)
            assert not list(rule.check(Case(mended.model, mended.conflicts, rule.parallel)))


def test_rules_that_count_wait_until_sizes_agree():
    text = next(iter(RULES["ATT001"].invalid))
    loaded = load_text(text, "f", strict=False)
    assert loaded.conflicts
    assert [
        found.rule.code
        for found in lint(Case(loaded.model, loaded.conflicts), Selection())
        if found.rule.counts
    ] == []


@sampled_rows("name", presets(), 4)
def test_a_preset_breaks_only_what_is_known_of_it(name):
    known = {code for code, rule in RULES.items() if name in rule.known}
    assert broken_by(name) == known
    assert not any(RULES[code].severity is Severity.ERROR for code in known)


def test_what_is_known_is_known_of_presets():
    assert {name for rule in RULES.values() for name in rule.known} <= set(presets())


def test_the_page_of_all_rules_is_current(request):
    page = ROOT / "docs" / "rules.md"
    if request.config.getoption("--renew"):
        page.parent.mkdir(exist_ok=True)
        page.write_text(as_page(RULES.values()))
    assert page.read_text() == as_page(RULES.values())
