"""`archcli list`: the presets."""

from __future__ import annotations

from archcli.commands.base import subject
from archcli.commands.options import Form, Json, Output
from archcli.load.source import presets
from archcli.measure.catalogue import list_models
from archcli.render import show


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the presets, with parameters, attention and what their cache takes per token."""
    show(list_models((name, subject(name, ()).model) for name in presets()), form, output, as_json=as_json)
