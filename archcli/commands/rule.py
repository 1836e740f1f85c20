"""`archcli rule CODE`: the full description of a design rule."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.commands.line import completion
from archcli.commands.line.options import Json, Output
from archcli.load.presets import evidence_index
from archcli.measure.report import Report
from archcli.render import chosen_format, rendered, write
from archcli.render.screen import fitted, without_markup
from archcli.rules.document import as_answer, as_record
from archcli.rules.evidence import COLUMNS, spread
from archcli.rules.lint import rule_of

Code = Annotated[
    str,
    typer.Argument(
        metavar="CODE",
        autocompletion=completion.codes,
        help="The code of a rule, such as FFN001; `archcli rules` lists them.",
    ),
]

SUFFIXES = {".md": ("md",), ".json": ("json",)}


def run(code: Code, as_json: Json = False, output: Output = None) -> None:
    """Explain a design rule: what it asks, why, its source, and examples."""
    rule = rule_of(code)
    among = spread(evidence_index(COLUMNS), rule.evidence) if rule.evidence else ""
    form = chosen_format(None, output, as_json=as_json, suffixes=SUFFIXES)
    if form == "json":
        record = as_record(rule) | {"spread": among}
        write(rendered(Report("rule", {}, {"code": rule.code}, "", record, []), "json"), output)
        return
    text = as_answer(rule, among)
    if form != "md":
        text = without_markup(text) if output else fitted(text)
    write(text, output)
