"""`archcli report`: a page on models that calculates."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subjects
from archcli.commands.line.options import Json, asking
from archcli.commands.line.several import SetOne, assigned, models_argument
from archcli.commands.line.written import check_apart, say_written
from archcli.render.screen import progress
from archcli.render.write import descriptor
from archcli.wings.drawing.api.draw import check_count
from archcli.wings.drawing.api.report import report_of
from archcli.wings.drawing.api.reporting.options import ReportOptions
from archcli.wings.drawing.api.reporting.subjects import ReportedModel
from archcli.wings.drawing.report.files import check_page

Models = Annotated[list[str] | None, models_argument("One to four")]
PageFile = Annotated[
    Path, Option("The .html file to write; - prints it.", "-o", metavar="FILE", reads="picture")
]
USUAL = Path("report.html")
Open = Annotated[bool, Option("Open the page in the browser.", name="open")]


@asking(ReportOptions)
def run(
    options: ReportOptions,
    *,
    models: Models = None,
    overrides: SetOne = None,
    output: PageFile = USUAL,
    opened: Open = False,
    as_json: Json = False,
) -> None:
    """Write a page on one to four models that calculates.

    One file, without a network: key figures, the drawing, parameters, FLOPs, cache, predicted speed, where it
    fits, design rules and formulas. Contexts, batches and all sizes of a model can be changed in it, and
    every count follows exactly, as with --set.
    """
    model_args = models or []
    check_count(len(model_args), "report")
    check_apart(output, as_json=as_json)
    check_page(output)
    loaded = subjects(model_args, assigned(overrides or (), len(model_args)))
    with progress("report") as tick:
        reported = [ReportedModel(*pair) for pair in zip(loaded, model_args, strict=True)]
        page = report_of(reported, options, lambda what: tick(what, 0, 0))
        page.save(output)
    inputs = {"models": model_args, **asdict(options)}
    notes, names = (*page.left_out, *page.taken), [model.name for model in loaded]
    say_written("report", names, inputs, output, as_json=as_json, notes=notes)
    if opened and descriptor(output) is None:
        import typer  # a page is opened by the program alone

        typer.launch(output.resolve().as_uri())
