"""`archcli params`: how large an architecture is."""

from __future__ import annotations

from archcli.commands.base import subject
from archcli.commands.options import Depth, Dtype, Form, Json, Model, Output, Set
from archcli.measure.params import count_params


def run(
    model: Model,
    *,
    dtype: Dtype = "bf16",
    depth: Depth = 3,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count parameters: in total, active per token, by group and by path, and the bytes they take."""
    asked = subject(model, overrides)
    asked.show(count_params(asked.model, dtype, depth), form, output, as_json=as_json)
