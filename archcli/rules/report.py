"""Findings as a report: the rows of JSON, and what the other formats are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import Mark
from archcli.measure.report import Column, Report, Table
from archcli.rules.base import Severity
from archcli.rules.evidence import Standing
from archcli.rules.lint import Found

CONVENTION = "error: no model could mean it. warning: a reviewer would ask. info: worth knowing. Every rule names its source: archcli rule CODE."  # noqa: E501


class Placed(NamedTuple):
    """A finding, the model it is about, where that stands in its file, and what the presets say of the value."""

    model: str
    found: Found
    mark: Mark
    standing: Standing | None = None


def report_of(
    placed: Sequence[Placed],
    models: Sequence[Mapping[str, str]],
    inputs: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Report:
    """What `archcli check` reports of one model or of many; `notes` are what their imports said."""
    rows = [_row(each) for each in placed]
    counts = Counter(row["severity"] for row in rows)
    totals = {
        "models": len(models),
        "findings": len(rows),
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "infos": counts[Severity.INFO],
        "by_code": dict(sorted(Counter(row["code"] for row in rows).items())),
    }
    named = models[0] if len(models) == 1 else {"name": f"{len(models)} models", "source": ""}
    return Report(
        "check", dict(named), dict(inputs), CONVENTION, totals, rows, (_findings(rows),), tuple(notes)
    )


def _findings(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each finding."""
    records = [{**row, "place": "{file}:{line}:{column}".format(**row["where"])} for row in rows]
    columns = (
        Column("place", "place"),
        Column("severity", "severity"),
        Column("code", "code"),
        Column("message", "finding"),
    )
    return Table("", columns, records)


def statistics(placed: Sequence[Placed]) -> Table:
    """How often each rule was broken, the most frequent first."""
    counts = Counter(each.found.rule.code for each in placed)
    rules = {each.found.rule.code: each.found.rule for each in placed}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    records = [
        {"code": code, "severity": str(rules[code].severity), "findings": n, "title": rules[code].title}
        for code, n in ordered
    ]
    columns = (
        Column("code", "code"),
        Column("severity", "severity"),
        Column("findings", "findings", "number"),
        Column("title", "rule"),
    )
    return Table("Findings by rule", columns, records)


def summary(totals: Mapping[str, Any]) -> str:
    """One line that says how it went."""
    if not totals["findings"]:
        return f"{_many(totals['models'], 'model')}: nothing found."
    parts = [_many(totals[f"{kind}s"], kind) for kind in ("error", "warning", "info") if totals[f"{kind}s"]]
    return f"{_many(totals['models'], 'model')}: {', '.join(parts)}."


def _row(each: Placed) -> dict[str, Any]:
    rule, finding = each.found
    return {
        "model": each.model,
        "code": rule.code,
        "severity": str(rule.severity),
        "title": rule.title,
        "message": finding.message,
        "value": finding.value,
        "expected": finding.expected,
        "where": {
            "file": each.mark.file,
            "line": each.mark.line,
            "column": each.mark.column,
            "end_column": each.mark.column + each.mark.width,
            "path": finding.path,
        },
        "help": finding.help,
        "fixes": [fix._asdict() for fix in finding.fixes],
        "source": rule.source,
        "evidence": None if each.standing is None else each.standing.record(),
    }


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 or noun == "info" else f"{n} {noun}s"
