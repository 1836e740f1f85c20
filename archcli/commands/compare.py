"""`archcli compare`: architectures side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from archcli.api.asking.subject import subjects
from archcli.api.compare import CompareOptions, compared
from archcli.commands.line import completion
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.errors import ArchError, Problem
from archcli.measure.survey.compare.report import FEWEST
from archcli.render import show

Models = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.models,
        metavar="MODEL",
        help="Two or more: YAML, config.json or GGUF files, names of presets, - for standard input.",
    ),
]
SetOne = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[N:]KEY=VALUE",
        autocompletion=completion.overrides,
        help="Change a field of model N, counted from 1, or without N of all: 2:n_kv_heads=8. Repeatable.",
    ),
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
    given = models or []
    loaded = subjects(given, _assigned(overrides or (), len(given))) if len(given) >= FEWEST else []
    report = compared(loaded, options)
    inputs = {**report.inputs, "set": overrides} if overrides else report.inputs
    show(replace(report, inputs=inputs), form, output, as_json=as_json)


def _assigned(overrides: Sequence[str], n_models: int) -> list[list[str]]:
    """The overrides of each model: those with its number before a colon, and those without a number."""
    numbered = [(re.match(r"(\d+):", text), text) for text in overrides]
    beyond = [
        Problem(
            f"there is no model {number[1][:9]}",
            f"they count from 1 to {n_models}",
            path=f"--set {text[:40]}",
        )
        for number, text in numbered
        if number and not (len(number[1]) <= len(str(n_models)) and 1 <= int(number[1]) <= n_models)
    ]
    if beyond:
        raise ArchError(beyond)
    return [
        [
            text[number.end() :] if number else text
            for number, text in numbered
            if not number or int(number[1]) == i
        ]
        for i in range(1, n_models + 1)
    ]
