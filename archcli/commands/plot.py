"""`archcli plot`: a saved profile as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.load.saved import read_result
from archcli.render.picture import save

Saved = Annotated[Path, typer.Argument(metavar="PROFILE.json", help="What archcli profile MODEL --json -o PROFILE.json has written.")]
Picture = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="An .svg, an .html, or with archcli[plot] a .png file.")]


def run(profile: Saved, output: Picture = Path("profile.svg")) -> None:
    """Draw a saved profile: FLOPs, bytes and time by class of operation, and a roofline of the operators."""
    save(read_result(profile, "profile"), output)
    typer.echo(f"{output}", err=True)
