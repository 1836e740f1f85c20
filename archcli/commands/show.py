"""`archcli show`: the forward of an architecture as archcli parsed it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from archcli.commands.base import subject
from archcli.commands.options import BatchSize, Json, Model, Output, SeqLen, Set
from archcli.load.yaml.writer import to_yaml
from archcli.measure.show import list_rows
from archcli.render import write

FormOrYaml = Annotated[
    Literal["table", "json", "csv", "md", "plain", "yaml"] | None,
    typer.Option("--format", help="How to print; yaml is the file it could have come from."),
]


def run(
    model: Model,
    *,
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 2048,
    overrides: Set = None,
    form: FormOrYaml = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Show the forward, operation by operation, with shapes and parameters.

    With --format yaml, show the YAML of what was understood.
    """
    asked = subject(model, overrides)
    if form == "yaml":
        write(to_yaml(asked.model), output)
    else:
        asked.show(list_rows(asked.model, batch_size, seq_len), form, output, as_json=as_json)
