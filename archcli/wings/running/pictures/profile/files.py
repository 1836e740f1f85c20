"""Write the picture of a profile as SVG, HTML or PNG, by the suffix of the file.

It has shares, a roofline and in HTML a table. Its only input is the JSON of `archcli profile --json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.render.picture.files import draw
from archcli.wings.running.pictures.profile.drawing import Picture, svg
from archcli.wings.running.pictures.profile.model import picture_of_model
from archcli.wings.running.pictures.profile.own import is_of_own, picture_of_own
from archcli.wings.running.pictures.profile.page import page


def save(document: Mapping[str, Any], output: Path) -> None:
    """Write the picture of the profile of an architecture, a program or a module.

    Raises ArchError for an unknown suffix, a document without figures, and a PNG without resvg-py.
    """
    try:
        picture = _picture(document)
        draw(output, lambda: svg(picture), lambda: page(picture, document))
    # a file edited by hand may lack keys, or have values of another type
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ArchError(
            Problem("this profile holds no figures by class and operator, or not as archcli writes them")
        ) from None


def _picture(document: Mapping[str, Any]) -> Picture:
    return picture_of_own(document) if is_of_own(document) else picture_of_model(document)
