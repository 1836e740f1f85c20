"""`archcli rules` and `archcli rule CODE`: every rule of design, a line each; and one in full."""

from __future__ import annotations

from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.design_rules import design_rules, presets_beside
from archcli.commands.line.options import Form, Json, Output
from archcli.render import chosen_format, rendered, show, write
from archcli.render.screen import fitted, without_markup
from archcli.rules.document import as_answer
from archcli.rules.lint import rule_of

Code = Annotated[
    str,
    Option(
        "The code of a rule, such as FFN001; `archcli rules` lists them.",
        metavar="CODE",
        completes="codes",
        argument=True,
    ),
]

SUFFIXES = {".md": ("md",), ".json": ("json",)}


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the design rules of archcli check."""
    show(design_rules(), form, output, as_json=as_json)


def explain(code: Code, as_json: Json = False, output: Output = None) -> None:
    """Explain a design rule: what it asks, why, its source, and examples."""
    rule = rule_of(code)
    form = chosen_format(None, output, as_json=as_json, suffixes=SUFFIXES)
    if form == "json":
        write(rendered(design_rules(rule.code), "json"), output)
        return
    text = as_answer(rule, presets_beside(rule))
    if form != "md":
        text = without_markup(text) if output else fitted(text)
    write(text, output)
