"""`archcli rules`: every rule of design, a line each."""

from __future__ import annotations

from archcli.commands.line.options import Form, Json, Output
from archcli.measure.report import Column, Report, Table
from archcli.render import show
from archcli.rules import all_rules

CONVENTION = (
    "error: no model could mean it. warning: a reviewer would ask. info: worth knowing. archcli rule CODE "
    "explains a rule: its reason, its source, when it does not apply, and examples."
)


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the design rules of archcli check."""
    rows = [
        {"code": rule.code, "severity": str(rule.severity), "title": rule.title, "source": rule.source}
        for rule in all_rules().values()
    ]
    columns = (Column("code", "code"), Column("severity", "severity"), Column("title", "rule"))
    show(
        Report("rules", {}, {}, CONVENTION, {"rules": len(rows)}, rows, (Table("", columns, rows),)),
        form,
        output,
        as_json=as_json,
    )
