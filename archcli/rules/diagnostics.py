"""Diagnostics: findings at their places in the file, without those silenced by a comment."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import Mark
from archcli.rules.base import Case, DesignRule, Finding, Severity
from archcli.rules.evidence import Index, Standing, standing
from archcli.rules.lint import Selection, lint

SEVEREST = (Severity.ERROR, Severity.WARNING, Severity.INFO)
PRAGMA = re.compile(r"#\s*archcli:\s*ignore(?:\[([^\]]*)\])?")
"""A comment that silences rules on its line: all of them, or those of the codes in brackets."""


class Diagnostic(NamedTuple):
    """A finding with what a report says of it.

    model, rule, finding: the model's name, the rule that found it, and what it found.
    mark: the place in the file. standing: where its value lies among the presets.
    known: why a preset is so, as it was published: GPT-2 has 50,257 tokens.
    """

    model: str
    rule: DesignRule
    finding: Finding
    mark: Mark
    standing: Standing | None = None
    known: str = ""


def diagnose(
    case: Case,
    name: str,
    selection: Selection,
    mark_of: Callable[[str], Mark],
    index: Index,
    *,
    is_preset: bool = False,
) -> list[Diagnostic]:
    """The diagnostics of a model, in the order of the file.

    `mark_of` gives the place of a field's full path; `index` records the presets. The model may be one.
    """
    merged: dict[Any, Diagnostic] = {}
    for rule, finding in lint(case, selection, case.model.ignore):
        mark = mark_of(finding.path)
        if is_silenced(mark.text, rule.code):
            continue
        # several layers may share one line of the file: one diagnostic, with the fixes of all
        key = (rule.code, mark, finding.message)
        if key in merged:
            first = merged[key].finding
            merged[key] = merged[key]._replace(finding=replace(first, fixes=first.fixes + finding.fixes))
        else:
            # a preset is not compared with itself
            compared = rule.evidence and finding.is_of_text
            among = standing(index, rule.evidence, finding.value, name) if compared else None
            known = rule.known.get(name, "") if is_preset else ""
            merged[key] = Diagnostic(name, rule, finding, mark, among, known)
    return sorted(_mendable(_one_per_cause(merged.values())), key=_position)


def _mendable(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """The diagnostics, without a fix of a field that another rule would still find wrong.

    Of d_ff 5,000 beside d_model 4,096 the next multiple of 64 is as much too small.
    """
    rules: dict[str, set[str]] = defaultdict(set)
    for diagnostic in diagnostics:
        if not diagnostic.finding.fixes:
            rules[diagnostic.finding.path].add(diagnostic.rule.code)
    for diagnostic in diagnostics:
        fixes = tuple(fix for fix in diagnostic.finding.fixes if not rules[fix.path])
        yield diagnostic._replace(finding=replace(diagnostic.finding, fixes=fixes))


def _one_per_cause(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The most severe diagnostic of each field and cause; of equally severe ones the first."""
    chosen: list[Diagnostic] = []
    seen: set[Any] = set()
    for diagnostic in sorted(diagnostics, key=_severity):
        finding = diagnostic.finding
        key = (diagnostic.mark, finding.path.rsplit(".", 1)[-1], finding.cause)
        if not finding.cause or key not in seen:
            chosen.append(diagnostic)
        seen.add(key)
    return chosen


def is_failing(diagnostics: Sequence[Diagnostic], floor: Severity) -> bool:
    """Whether any finding is an error, or a warning if `floor` is warning.

    Information never fails, nor what is known of a preset.
    """
    fatal = {Severity.ERROR, floor} - {Severity.INFO}
    return any(it.rule.severity in fatal and not it.known for it in diagnostics)


def is_silenced(line: str, code: str) -> bool:
    """Whether a comment on the line silences the rule: `# archcli: ignore[FFN001]`."""
    pragma = PRAGMA.search(line)
    if pragma is None:
        return False
    prefixes = [prefix.strip().upper() for prefix in (pragma[1] or "").split(",")]
    return pragma[1] is None or any(prefix and code.startswith(prefix) for prefix in prefixes)


def _severity(diagnostic: Diagnostic) -> int:
    return SEVEREST.index(diagnostic.rule.severity)


def _position(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    mark = diagnostic.mark
    return mark.file, mark.line, mark.column, diagnostic.rule.code
