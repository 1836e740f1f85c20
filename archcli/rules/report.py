"""The report of `archcli check`: the rows of its JSON, GitHub and SARIF formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.measure.report import Column, Report, Table
from archcli.rules.base import Severity
from archcli.rules.diagnostics import Diagnostic

CONVENTION = (
    "error: no model could mean it. warning: a reviewer would ask. info: worth knowing. "
    "Every rule names its source: archcli rule CODE."
)
COLUMNS = (
    Column("place", "place"),
    Column("severity", "severity"),
    Column("code", "code"),
    Column("message", "finding"),
)
KEYS: tuple[str, ...] = (
    "model",
    "code",
    "severity",
    "title",
    "message",
    "value",
    "expected",
    "where",
    "help",
    "fixes",
)
KEYS += ("source", "evidence")
"""Keys of a row."""

COUNTED = (
    Column("code", "code"),
    Column("severity", "severity"),
    Column("findings", "findings", "number"),
    Column("title", "rule"),
)


def report_of(
    diagnostics: Sequence[Diagnostic],
    models: Sequence[Mapping[str, str]],
    inputs: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Report:
    """The report on the models that were checked; `notes` are those of their imports."""
    rows = [_row(diagnostic) for diagnostic in diagnostics]
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
    records = [{**row, "place": "{file}:{line}:{column}".format(**row["where"])} for row in rows]
    tables = (Table("", COLUMNS, records),)
    return Report(
        "check",
        dict(named),
        dict(inputs),
        CONVENTION,
        totals,
        rows,
        tables,
        tuple(notes),
        keys=KEYS,
        headline=summary(totals),
    )


def summary(totals: Mapping[str, Any]) -> str:
    """How many findings of each severity: `1 error, 3 warnings`, or `no findings`."""
    counts = [(kind, totals[f"{kind}s"]) for kind in ("error", "warning", "info")]
    return ", ".join(_plural(n, kind) for kind, n in counts if n) or "no findings"


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 or noun == "info" else f"{n} {noun}s"


def statistics(report: Report) -> Report:
    """The numbers of findings by rule, the most frequent first."""
    counts = Counter(row["code"] for row in report.rows)
    rules = {row["code"]: row for row in report.rows}
    records = [
        {"code": code, "severity": rules[code]["severity"], "findings": n, "title": rules[code]["title"]}
        for code, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    tables, keys = (Table("Findings by rule", COUNTED, records),), [column.key for column in COUNTED]
    return replace(report, rows=records, tables=tables, notes=(), keys=keys)


def _row(diagnostic: Diagnostic) -> dict[str, Any]:
    rule, finding, mark = diagnostic.rule, diagnostic.finding, diagnostic.mark
    return {
        "model": diagnostic.model,
        "code": rule.code,
        "severity": str(rule.severity),
        "title": rule.title,
        "message": finding.message,
        "value": finding.value,
        "expected": finding.expected,
        "where": {
            "file": mark.file,
            "line": mark.line,
            "column": mark.column,
            # one behind the last character, as SARIF has it
            "end_column": mark.column + mark.width,
            "path": finding.path,
        },
        "help": finding.help,
        "fixes": [fix._asdict() for fix in finding.fixes],
        "source": rule.source,
        "evidence": None if diagnostic.standing is None else diagnostic.standing.record(),
    }
