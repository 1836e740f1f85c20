"""Lint: run the selected rules on an architecture and yield each finding with its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem, either, quote
from archcli.rules import all_rules
from archcli.rules.base import Case, DesignRule, Finding

LONGEST = 16
"""The most characters of an unknown code that are compared with codes of rules."""


class RuleFinding(NamedTuple):
    """A finding and the rule that made it."""

    rule: DesignRule
    finding: Finding


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of rules by prefixes of their codes, as in ruff.

    `select` replaces all rules, `extend` adds some, `ignore` takes some away. The longest prefix that fits a
    code decides; where a selection and an `ignore` are equally long, `ignore` wins.
    """

    select: Sequence[str] = ()
    extend: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def takes(self, code: str, ignored: Sequence[str] = ()) -> bool:
        """Whether the rule with this code runs; `ignored` are the prefixes that the model lists."""
        wanted = 0 if not self.select else _longest(code, self.select)
        wanted = max(wanted, _longest(code, self.extend))
        # -1 where nothing is ignored: then the 0 of all rules or of ALL is enough
        return wanted > _longest(code, (*self.ignore, *(prefix.upper() for prefix in ignored)))


def lint(case: Case, selection: Selection, ignored: Sequence[str] = ()) -> Iterator[RuleFinding]:
    """The findings of all selected rules, those about towers last.

    While sizes conflict, rules that need counted rows are skipped, and so are towers.
    """
    for rule in all_rules().values():
        if not selection.takes(rule.code, ignored) or not rule.applies(case):
            continue
        if not (rule.counts and case.conflicts):
            findings = (replace(finding, is_of_text=case.reads_text) for finding in rule.check(case))
            yield from (RuleFinding(rule, finding) for finding in findings)
    for i, tower in enumerate(() if case.conflicts else case.model.towers):
        encoder: Any = tower.model  # a model by itself
        for rule, finding in lint(Case(encoder), selection, ignored):
            yield RuleFinding(rule, _of_tower(finding, f"towers.{i}.model", tower.part))


def _of_tower(finding: Finding, stem: str, part: str) -> Finding:
    """A finding about a tower, at its place in the whole model and under the name of its part."""
    fixes = tuple(fix._replace(path=f"{stem}.{fix.path}") for fix in finding.fixes)
    path, message = f"{stem}.{finding.path}", f"{part}: {finding.message}"
    return replace(finding, path=path, message=message, fixes=fixes)


def check_prefixes(prefixes_of: Mapping[str, Sequence[str]]) -> None:
    """Refuse prefixes that no rule's code begins with; ArchError with the nearest codes."""
    pairs = [(option, prefix) for option, prefixes in prefixes_of.items() for prefix in prefixes]
    problems = [
        Problem(f"{option} {quote(prefix)}: no rule's code begins with it", _close_codes_hint(prefix))
        for option, prefix in pairs
        if not is_prefix(prefix)
    ]
    if problems:
        raise ArchError(problems)


def rule_of(code: str) -> DesignRule:
    """The rule with this code; ArchError with the nearest codes where there is none."""
    rule = all_rules().get(code.upper())
    if rule is None:
        raise ArchError(Problem(f"no rule {quote(code)}", _close_codes_hint(code)))
    return rule


def _longest(code: str, prefixes: Sequence[str]) -> int:
    """The length of the longest of the prefixes that the code begins with: 0 for ALL, -1 for none."""
    stems = ["" if prefix == "ALL" else prefix for prefix in prefixes if prefix]
    return max((len(stem) for stem in stems if code.startswith(stem)), default=-1)


def is_prefix(prefix: str) -> bool:
    """Whether a rule's code begins with this prefix; ALL is a prefix of every code."""
    return prefix == "ALL" or (bool(prefix) and any(code.startswith(prefix) for code in all_rules()))


def _close_codes_hint(code: str) -> str:
    # only for a code that is wrong
    from difflib import get_close_matches

    below = [known for known in all_rules() if code and known.startswith(code.upper())]
    near = below or sorted(get_close_matches(code.upper()[:LONGEST], all_rules(), n=3, cutoff=0.5))
    return f"did you mean {either(near)}?" if near else "`archcli rules` lists them"
