"""`archcli params`: how large an architecture is."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.commands.base import Subject, subject
from archcli.commands.options import Depth, Dtype, Form, Json, Model, Output, Set
from archcli.measure.params import count_params
from archcli.measure.report import Report

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="CHECKPOINT",
        help="Compare with a .safetensors file, its index, a folder, or org/name on the hub.",
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    dtype: Dtype = "bf16",
    depth: Depth = 3,
    against: Against = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count parameters: total, active, by group and by path, and bytes.

    With --against, compare a checkpoint's tensors with the architecture by name and shape: which are
    missing, misshapen or unexpected, and why any other is there. Only headers are read, no weights. Exits
    with 1 where a tensor is left unexplained.
    """
    asked = subject(model, overrides)
    report = count_params(asked.model, dtype, depth) if against is None else _compared(asked, against)
    asked.show(report, form, output, as_json=as_json)
    if not report.totals.get("ok", True):
        raise typer.Exit(1)


def _compared(asked: Subject, against: str) -> Report:
    from archcli.commands._weights import compare_checkpoint
    from archcli.measure.weights.checkpoint import count_checkpoint

    model, checkpoint, comparison = compare_checkpoint(asked, against)
    return count_checkpoint(model, checkpoint.source, comparison, checkpoint.notes)
