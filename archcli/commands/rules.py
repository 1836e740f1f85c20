"""`archcli rules`: every rule of design, a line each."""

from __future__ import annotations

from archcli.api.design_rules import design_rules
from archcli.commands.line.options import Form, Json, Output
from archcli.render import show


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the design rules of archcli check."""
    show(design_rules(), form, output, as_json=as_json)
