"""`plot`, the Python function of `archcli plot`."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from archcli.api.asking.question import Option, asks
from archcli.errors import ArchError, Problem
from archcli.modules.spec.values import Conversion, refused
from archcli.render.picture.files import check_picture
from archcli.wings.running.pictures.profile.files import save
from archcli.wings.serving.api.known_device.saved_profile import read_any_profile


def _path(value: Any) -> Path:
    if not isinstance(value, str | PathLike):
        raise refused(value, "a path")
    return Path(value)


Saved = Annotated[
    str | PathLike[str],
    Conversion("a path", _path),
    Option(
        "A file that `archcli profile --json -o PROFILE.json` wrote, of a model or a program.",
        metavar="PROFILE.json",
        reads="text",
        argument=True,
    ),
]
Picture = Annotated[
    str | PathLike[str],
    Conversion("a path", _path),
    Option("An .svg or .html file; with resvg-py also a .png.", "-o", metavar="FILE", reads="text"),
]


@dataclass(frozen=True)
class PlotOptions:
    """Options of `archcli plot`."""

    profile: Saved
    output: Picture = "profile.svg"


@asks(PlotOptions)
def plot(options: PlotOptions) -> Path:
    """Draw a saved profile as SVG, HTML or PNG: `archcli plot`. Returns the file.

    Of a model it shows the shares of FLOPs, bytes and time by class of operation, and a roofline of the
    operators; of a program or module the time by class and by module. ArchError for a file that no
    `archcli profile --json` wrote, and for one with variants.
    """
    from archcli.wings.serving.recorded.schema import is_comparison

    profile, output = Path(options.profile), Path(options.output)
    check_picture(output)
    document = read_any_profile(profile)
    if is_comparison(document):
        what = "a profile with --vs compares: there is no picture of it"
        raise ArchError(Problem(what, "draw one of a single model", path=str(profile)))
    save(document, output)
    return output
