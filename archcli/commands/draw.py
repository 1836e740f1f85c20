"""`archcli draw`: architectures as a drawing to scale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subjects
from archcli.api.draw import SCREEN, ArchitectureDrawing, DrawOptions, check_count, drawing_of
from archcli.commands.line.options import asking
from archcli.commands.line.several import SetOne, assigned, models_argument
from archcli.errors import sanitize
from archcli.render.write import descriptor, tell, write

Models = Annotated[list[str] | None, models_argument("One to four")]
PictureFile = Annotated[
    Path | None,
    Option(
        "An .svg or .html file; with resvg-py also a .png; - prints the SVG.",
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
) -> None:
    """Draw architectures to scale: every layer, and what it is made of.

    The width of a bar is the width of its tensor, by one scale in the whole drawing. All layers stand in the
    strip, each distinct layer and each distinct mixer and network is drawn once, and at the foot stands what
    is stored against what a token reads. Without -o a compact drawing is printed as text. Two to four models
    are drawn as columns of one scale, with what tells them apart.
    """
    given = models or []
    check_count(len(given))
    loaded = subjects(given, assigned(overrides or (), len(given)))
    drawing = drawing_of(loaded, options)
    for note in (note for model in loaded for note in model.name_notes):
        tell(f"note: {sanitize(note)}")
    if output is None:
        write(_text(drawing), None)
        return
    drawing.save(output)
    if descriptor(output) is None:
        tell(sanitize(str(output)))


def _text(drawing: ArchitectureDrawing) -> str:
    """The drawing as text, as wide as the terminal, and in colour there."""
    from archcli.render.screen import columns, has_colours

    width = columns()
    encoding = sys.stdout.encoding
    return drawing.text(width or SCREEN, encoding, coloured=has_colours())
