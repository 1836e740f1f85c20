"""`archcli families`: the model types of config.json that archcli reads, a line each."""

from __future__ import annotations

from archcli.api.families import families
from archcli.commands.line.options import Form, Json, Output
from archcli.render import show


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the Hugging Face model types that are read, wrappers included."""
    show(families(), form, output, as_json=as_json)
