"""`archcli rule CODE`: one rule of design, whole."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.commands.options import Json, Output
from archcli.measure.report import Report
from archcli.render import rendered, write
from archcli.rules.document import as_markdown, as_record
from archcli.rules.lint import rule_of

Code = Annotated[str, typer.Argument(metavar="CODE", help="A rule's code, such as FFN001; `archcli rules` lists them.")]


def run(code: Code, as_json: Json = False, output: Output = None) -> None:
    """Explain a rule: what it asks, why, by which source, when it does not apply, and examples."""
    rule = rule_of(code)
    if as_json:
        write(rendered(Report("rule", {}, {"code": rule.code}, "", as_record(rule), []), "json"), output)
    else:
        write(as_markdown(rule), output)
