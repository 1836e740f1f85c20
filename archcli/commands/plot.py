"""`archcli plot`: a saved profile as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.api.saved_profile import read_profile
from archcli.errors import ArchError, Problem, sanitize
from archcli.render.picture import check_picture, save
from archcli.render.write import descriptor, tell

Saved = Annotated[
    Path,
    typer.Argument(
        metavar="PROFILE.json", help="A file written by `archcli profile MODEL --json -o PROFILE.json`."
    ),
]
Picture = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="An .svg or .html file; with resvg-py also a .png."),
]


def run(profile: Saved, output: Picture = Path("profile.svg")) -> None:
    """Draw a saved profile as SVG, HTML or PNG.

    The picture shows the shares of FLOPs, bytes and time by class of operation, and a roofline of the
    operators.
    """
    from archcli.measure.profile.schema import is_comparison

    check_picture(output)
    document = read_profile(profile)
    if is_comparison(document):
        raise ArchError(
            Problem(
                "a profile with --vs compares: there is no picture of it",
                "draw one of a single model",
                path=str(profile),
            )
        )
    save(document, output)
    if descriptor(output) is None:
        tell(sanitize(str(output)))
