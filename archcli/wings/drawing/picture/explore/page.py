"""The page around a drawing: the SVG, what a token does step by step, and scripts that mark and fold.

A single file without a network. Without its script it is the SVG alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from archcli.render.picture.elements import escaped
from archcli.units import binary_bytes, short_count, short_flops
from archcli.wings.drawing.report.page import filled, policy

if TYPE_CHECKING:
    from archcli.wings.drawing.measure.token_walk import WalkStage, WalkStep

SCRIPTS = ("marks", "folds", "find", "walk", "explore")
"""The scripts of the page, in their order."""
WRITERS: tuple[Callable[[float], str], ...] = (short_count, short_flops, binary_bytes, binary_bytes)
"""How each of a step's amounts is written in short."""


def explore_page(
    title: str, drawing: str, models: Sequence[str], stages: Sequence[WalkStage], file: Callable[[str], str]
) -> str:
    """The page on a drawing; `models` as a shell takes them, `file` reads a file of this folder."""
    records = [stage._asdict() | {"steps": [*map(_record, stage.steps)]} for stage in stages]
    data = json.dumps({"models": models, "stages": records}, separators=(",", ":"), ensure_ascii=False)
    parts = {
        "title": escaped(title),
        "style": _stripped(file("explore.css")),
        "drawing": drawing,
        # </script> within a name must not end the data
        "data": data.replace("<", "\\u003c"),
        "script": "\n".join(["(() => {", *(_stripped(file(f"{name}.js")) for name in SCRIPTS), "})();"]),
    }
    whole = filled(file("explore.html"), {**parts, "policy": "{{policy}}"})
    # the canvas that becomes a PNG reads the drawing from a blob of this page
    return whole.replace("{{policy}}", f"{policy(whole)}; img-src blob:", 1)


def _stripped(text: str) -> str:
    """A script or a style sheet without indents and lines of comment: a fifth of the page."""
    lines = map(str.strip, text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _record(step: WalkStep) -> dict[str, Any]:
    """A step for the script, without what is empty; each amount with all digits, and in short."""
    amounts = [(str(n), write(n)) for n, write in zip(step.amounts, WRITERS, strict=True)]
    return {key: value for key, value in (step._asdict() | {"amounts": amounts}).items() if value}
