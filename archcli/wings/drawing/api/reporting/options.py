"""Options of `archcli report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from archcli.api.asking.options import Engine
from archcli.api.asking.question import Option
from archcli.modules.spec.values import Conversion, refused
from archcli.wings.drawing.api.draw import Timed


def _names(value: Any) -> tuple[str, ...]:
    if not issubclass(type(value), list | tuple) or not all(issubclass(type(text), str) for text in value):
        raise refused(value, "a list, each text")
    return tuple(value)


Devices = Annotated[
    Sequence[str],
    Conversion("a list, each text", _names),
    Option(
        "A device that the page predicts for. Repeatable. [default: rtx-4090, h100-sxm, b200-sxm, and where "
        "none holds the model 8xh100-sxm and 8xb200-sxm]",
        metavar="[Nx]NAME",
        completes="devices",
    ),
]


Title = Annotated[
    str | None, Option("The page's heading. [default: the models' names]", metavar="TEXT", reads="text")
]
Note = Annotated[
    str | None, Option("Lines below the heading: what is to be decided.", metavar="TEXT", reads="text")
]


@dataclass(frozen=True)
class ReportOptions:
    """Options of `archcli report`."""

    profile: Timed = None
    device: Devices = ()
    engine: Engine = None
    title: Title = None
    note: Note = None
