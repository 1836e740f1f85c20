"""`archcli sweep`: which shapes of an architecture meet conditions, and which of those are best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.api.subject import INTERRUPTED, subject
from archcli.api.sweep_question import AskedSweep, swept
from archcli.commands.line.options import Form, Json, Model, Output, Set, size_from
from archcli.render import show
from archcli.render.screen import progress

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=VALUES",
        help="A field and what it takes: d_model=1024:8192:128 (the end belongs to it), n_layers=16,24,32, "
        "attention.kind=gqa,mqa. Repeatable: all combinations.",
    ),
]
Tie = Annotated[
    list[str] | None,
    typer.Option(
        "--tie",
        metavar="NAME=EXPRESSION",
        help="A field that follows from others: d_ff=8/3*d_model@128 is the nearest multiple of 128. "
        "Repeatable.",
    ),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only candidates that meet it: params in 7e9±1%, kv_bytes(context=32768) <= 1GiB, "
        "aspect_ratio in 100..150. Repeatable; all must hold.",
    ),
]
Minimize = Annotated[
    list[str] | None,
    typer.Option(
        "--minimize",
        metavar="EXPRESSION",
        help="The smallest first: flops_per_token. Of several objectives, the Pareto front.",
    ),
]
Maximize = Annotated[
    list[str] | None, typer.Option("--maximize", metavar="EXPRESSION", help="The largest first.")
]
Show = Annotated[
    list[str] | None,
    typer.Option("--show", metavar="FIGURE", help="A further figure as a column: active_params. Repeatable."),
]
Top = Annotated[
    int, typer.Option("--top", metavar="N", parser=size_from(1), help="How many candidates to show.")
]
Check = Annotated[bool, typer.Option("--check", help="Drop candidates that `archcli check` would fail.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--write-yaml", metavar="DIR", help="Write the candidates that are shown as YAML files, NAME-1.yaml."
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    vary: Vary = None,
    tie: Tie = None,
    where: Conditions = None,
    minimize: Minimize = None,
    maximize: Maximize = None,
    show_figures: Show = None,
    top: Top = 20,
    check: Check = False,
    write_yaml: Folder = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Find the shapes of an architecture that meet conditions.

    Every combination of --vary is counted exactly as one model is, a chunk of candidates at a time.
    Conditions and objectives may ask for any figure of params, flops, kvcache, survey, memory (peak_bytes)
    and predict (time). Ctrl-C stops and shows the best so far.
    """
    texts = {"vary": vary, "tie": tie, "where": where, "minimize": minimize, "maximize": maximize}
    lists = {name: tuple(given or ()) for name, given in {**texts, "show": show_figures}.items()}
    asked = AskedSweep(**lists, top=top, check=check)
    base = subject(model, overrides)
    with progress(f"sweeping {base.name}") as tick:
        report = swept(base, asked, tick, write_yaml)
    show(report, form, output, as_json=as_json)
    if report.totals["seen"] < report.totals["candidates"]:
        raise typer.Exit(INTERRUPTED)
