"""`archcli show`: the forward of an architecture as archcli parsed it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from archcli.api.subject import subject
from archcli.commands.line.options import BatchSize, Json, Model, Output, SeqLen, Set
from archcli.load.yaml.writer import to_yaml
from archcli.measure.survey.show import list_rows
from archcli.render import BY_SUFFIX, chosen_format, write

FormOrYaml = Annotated[
    Literal["table", "json", "csv", "md", "plain", "svg", "yaml"] | None,
    typer.Option(
        "--format",
        help="Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
    ),
]

SUFFIXES = {**BY_SUFFIX, ".yaml": ("yaml",), ".yml": ("yaml",)}


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
    """Show the forward pass, operation by operation, with shapes.

    With --format yaml, print the architecture as YAML: what archcli read from a config.json or GGUF file.
    """
    chosen = chosen_format(form, output, as_json=as_json, suffixes=SUFFIXES)
    asked = subject(model, overrides)
    if chosen == "yaml":
        write(to_yaml(asked.model), output)
    else:
        asked.show(list_rows(asked.model, batch_size, seq_len), chosen, output)
