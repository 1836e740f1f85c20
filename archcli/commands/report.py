"""`archcli report`: a page on models that calculates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subjects
from archcli.api.draw import check_count
from archcli.api.report import report_of
from archcli.api.reporting.options import ReportOptions
from archcli.api.reporting.subjects import ReportedModel
from archcli.commands.line.options import asking
from archcli.commands.line.several import SetOne, assigned, models_argument
from archcli.errors import ArchError, sanitize
from archcli.render.report.files import check_page
from archcli.render.write import descriptor, tell

Models = Annotated[list[str] | None, models_argument("One to four")]
PageFile = Annotated[
    Path | None, Option("The .html file to write; - prints it.", "-o", metavar="FILE", reads="picture")
]
Open = Annotated[bool, Option("Open the page in the browser.", name="open")]


@asking(ReportOptions)
def run(
    options: ReportOptions,
    *,
    models: Models = None,
    overrides: SetOne = None,
    output: PageFile = None,
    opened: Open = False,
) -> None:
    """Write a page on one to four models that calculates.

    One file, without a network: key figures, the drawing, parameters, FLOPs, cache, predicted speed, where it
    fits, design rules and formulas. Contexts, batches and all sizes of a model can be changed in it, and
    every count follows exactly, as with --set.
    """
    given = models or []
    check_count(len(given), "report")
    if output is None:
        raise ArchError("report needs a file to write", "-o report.html")
    check_page(output)
    loaded = subjects(given, assigned(overrides or (), len(given)))
    page = report_of([ReportedModel(*pair) for pair in zip(loaded, given, strict=True)], options)
    page.save(output)
    for note in (*page.left_out, *page.taken):
        tell(f"note: {sanitize(note)}")
    if descriptor(output) is None:
        tell(sanitize(str(output)))
        if opened:
            import typer  # a page is opened by the program alone

            typer.launch(output.resolve().as_uri())
