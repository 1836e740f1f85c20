"""`archcli params`: how large an architecture is."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.api.subject import Subject, subject
from archcli.commands.line.options import Depth, Dtype, Form, Json, Model, Output, Set
from archcli.errors import ArchError
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
Explain = Annotated[
    str | None,
    typer.Option(
        "--explain", metavar="PATH", help="Say which formula gave a row: layers.*.attention, layers.3.ffn."
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    dtype: Dtype = "bf16",
    depth: Depth = 3,
    against: Against = None,
    explain: Explain = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count parameters: total, active, by group and by path, and bytes.

    With --against, compare a checkpoint's tensors with the architecture by name and shape: which are
    missing, misshapen or unexpected, and why any other is there. Only headers are read, no weights. Exits
    with 1 where a tensor is left unexplained. With --explain, say which formula gave a row.
    """
    asked = subject(model, overrides)
    if explain is not None and against is not None:
        raise ArchError("--explain and --against ask for different reports", "leave one of them out")
    if explain is not None:
        from archcli.api.explain import explained  # not for counting alone

        report = explained(asked, "params", {"path": explain}, steps=True)
    else:
        report = count_params(asked.model, dtype, depth) if against is None else _compared(asked, against)
    asked.show(report, form, output, as_json=as_json)
    if not report.totals.get("ok", True):
        raise typer.Exit(1)


def _compared(asked: Subject, against: str) -> Report:
    from archcli.api.weights import compare_checkpoint
    from archcli.measure.weights.checkpoint import count_checkpoint

    model, checkpoint, comparison = compare_checkpoint(asked, against)
    return count_checkpoint(model, checkpoint.source, comparison, checkpoint.notes)
