"""Writing the picture of a profile in the format that its file's suffix names.

It has shares, a roofline and in HTML a table; it is drawn from the document that `archcli profile --json`
prints, and from nothing else.
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
    """Write the picture of a profile's document, of an architecture or of a program or module.

    Raises ArchError for an unknown suffix, a document without figures, and a PNG without resvg-py.
    """
    try:
        picture = _picture(document)
        draw(output, lambda: svg(picture), lambda: page(picture, document))
    except (KeyError, TypeError, ValueError, AttributeError):  # as in a document that was edited by hand
        raise ArchError(
            Problem("this profile holds no figures by class and operator, or not as archcli writes them")
        ) from None


def _picture(document: Mapping[str, Any]) -> Picture:
    return picture_of_own(document) if is_of_own(document) else picture_of_model(document)
