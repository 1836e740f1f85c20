"""`archcli compare`: architectures side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from archcli.api.asking.subject import subjects
from archcli.api.compare import CompareOptions, compared
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.commands.line.several import SetOne, assigned, models_argument
from archcli.measure.survey.compare.report import FEWEST
from archcli.render import show

Models = Annotated[
    list[str] | None,
    models_argument("Two or more"),
]


@asking(CompareOptions)
def run(
    options: CompareOptions,
    *,
    models: Models = None,
    overrides: SetOne = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Compare architectures: settings, parameters, FLOPs and KV cache.

    Each figure has its multiple of the first model's beside it. Without --past or --context both are
    --seq-len, the same for all models.
    """
    names = models or []
    loaded = subjects(names, assigned(overrides or (), len(names))) if len(names) >= FEWEST else []
    report = compared(loaded, options)
    inputs = {**report.inputs, "set": overrides} if overrides else report.inputs
    show(replace(report, inputs=inputs), form, output, as_json=as_json)
