"""design_rules: `archcli rules` and `archcli rule` in Python."""

from __future__ import annotations

from collections import Counter

from archcli.load.presets import evidence_index
from archcli.measure.report import Column, Report, Table
from archcli.modules.spec.calls import checked
from archcli.rules import all_rules
from archcli.rules.base import DesignRule
from archcli.rules.document import as_record
from archcli.rules.evidence import COLUMNS, spread
from archcli.rules.lint import rule_of

CONVENTION = (
    "error: no model could mean it. warning: a reviewer would ask. info: worth knowing. archcli rule CODE "
    "explains a rule: its reason, its source, when it does not apply, and examples."
)


@checked
def design_rules(code: str | None = None) -> Report:
    """The design rules of `archcli check`, or the one with a code: the reports of `rules` and `rule`.

    Example: `design_rules("FFN001").totals["severity"]` is info.
    """
    if code is not None:
        rule = rule_of(code)
        record = as_record(rule) | {"spread": presets_beside(rule)}
        return Report("rule", {}, {"code": rule.code}, "", record, [])
    rows = [
        {"code": rule.code, "severity": str(rule.severity), "title": rule.title, "source": rule.source}
        for rule in all_rules().values()
    ]
    columns = (Column("code", "code"), Column("severity", "severity"), Column("title", "rule"))
    counts = Counter(row["severity"] for row in rows)
    of_each = ", ".join(f"{n} {severity}" for severity, n in counts.most_common())
    return Report(
        "rules",
        {},
        {},
        CONVENTION,
        {"rules": len(rows)},
        rows,
        (Table("", columns, rows),),
        headline=f"{len(rows)} rules: {of_each}",
    )


def presets_beside(rule: DesignRule) -> str:
    """The spread of a rule's figure over the presets: d_ff / d_model, say; empty without a figure."""
    return spread(evidence_index(COLUMNS), rule.evidence) if rule.evidence else ""
