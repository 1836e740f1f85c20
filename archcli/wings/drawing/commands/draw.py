"""`archcli draw`: architectures as a drawing to scale."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subjects
from archcli.commands.line.options import Json, asking
from archcli.commands.line.several import SetOne, assigned, models_argument
from archcli.commands.line.written import check_apart, say_written
from archcli.render.write import write
from archcli.wings.drawing.api.draw import SCREEN, ArchitectureDrawing, DrawOptions, check_count, drawing_of

Models = Annotated[list[str] | None, models_argument("One to four")]
PictureFile = Annotated[
    Path | None,
    Option(
        "An .svg, or an .html page to explore; with resvg-py also a .png; - prints the SVG.",
        "-o",
        metavar="FILE",
        reads="picture",
    ),
]


@asking(DrawOptions)
def run(
    options: DrawOptions,
    *,
    models: Models = None,
    overrides: SetOne = None,
    output: PictureFile = None,
    as_json: Json = False,
) -> None:
    """Draw architectures to scale: every layer, and what it is made of.

    The width of a bar is the width of its tensor, by one scale in the whole drawing. All layers stand in the
    strip, each distinct layer and each distinct mixer and network is drawn once, and at the foot stands what
    is stored against what a token reads. Without -o a compact drawing is printed as text. Two to four models
    are drawn as columns of one scale, with what tells them apart.
    """
    model_args = models or []
    check_count(len(model_args))
    check_apart(output, as_json=as_json)
    loaded = subjects(model_args, assigned(overrides or (), len(model_args)))
    drawing = drawing_of(loaded, options)
    if output is not None:
        drawing.save(output)
    inputs = {"models": model_args, "show": options.show, "profile": options.profile}
    notes = [note for model in loaded for note in model.name_notes]
    names = [model.name for model in loaded]
    say_written("draw", names, inputs, output, as_json=as_json, notes=notes, rows=drawing.rows())
    if output is None and not as_json:
        write(_text(drawing), None)


def _text(drawing: ArchitectureDrawing) -> str:
    """The drawing as text, as wide as the terminal, and in colour there."""
    from archcli.render.screen import NARROWEST, columns, has_colours

    told_columns = os.environ.get("COLUMNS", "")
    width = columns() or (max(NARROWEST, int(told_columns)) if told_columns.isdecimal() else SCREEN)
    encoding = sys.stdout.encoding
    return drawing.text(width, encoding, coloured=has_colours())
