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
    from archcli.wings.drawing.measure.walk.stages import WalkStage
    from archcli.wings.drawing.measure.walk.steps import StepAmounts, WalkStep

SCRIPTS = ("marks", "folds", "find", "walk", "explore")
"""The scripts of the page, in their order."""
WRITERS: tuple[Callable[[float], str], ...] = (short_count, short_flops, binary_bytes, binary_bytes)
"""How each of a step's amounts is written in short."""


def explore_page(
    title: str, drawing: str, models: Sequence[str], stages: Sequence[WalkStage], file: Callable[[str], str]
) -> str:
    """The page on a drawing.

    models: each as a shell takes it, with its --set options; of towers there is none.
    stages: the passes of the one model that is drawn; of several models there are none.
    file: reads a file of this folder, `explore.css`.
    """
    data = {"models": models, "stages": [*map(_stage_record, stages)]}
    parts = {
        "title": escaped(title),
        "style": _stripped(file("explore.css")),
        "drawing": drawing,
        # </script> within a name must not end the data
        "data": json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
        "script": "\n".join(["(() => {", *(_stripped(file(f"{name}.js")) for name in SCRIPTS), "})();"]),
    }
    whole = filled(file("explore.html"), {**parts, "policy": "{{policy}}"})
    # the canvas that becomes a PNG reads the drawing from a blob of this page
    return whole.replace("{{policy}}", f"{policy(whole)}; img-src blob:", 1)


def _stripped(text: str) -> str:
    """A script or a style sheet without indents and lines of comment: a fifth of the page."""
    lines = map(str.strip, text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _stage_record(stage: WalkStage) -> dict[str, Any]:
    """A stage for the script; its last step is all of it."""
    steps = [*map(_step_record, stage.steps), {"title": "In all", "amounts": _written(stage.total)}]
    return {"title": stage.title, "column": stage.column, "commands": stage.commands, "steps": steps}


def _step_record(step: WalkStep) -> dict[str, Any]:
    """A step for the script, without what is empty."""
    record = step._asdict() | {"amounts": _written(step.amounts)}
    return {key: value for key, value in record.items() if value not in ("", None)}


def _written(amounts: StepAmounts) -> list[tuple[str, str]]:
    """Each amount with all digits, as text, and in short."""
    return [(str(n), write(n)) for n, write in zip(amounts, WRITERS, strict=True)]
