"""What is recorded of presets, so that a list of what fits traces no pass of them: figures.json.

`python release/fit_figures.py` makes the file, and a test holds it to what `memory` counts.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.wings.serving.memory.parts.beside import Figures
from archcli.wings.serving.memory.traced import Passes, passes_of

FILE = Path(__file__).with_name("figures.json")


OF_PRESETS = "preset "
"""What begins the source of a preset."""


def with_figures(subject: Subject) -> Passes:
    """The passes of a model, of a preset as it is shipped with its figures; for as long as they are kept."""
    passes, name = passes_of(subject.model), subject.source.removeprefix(OF_PRESETS)
    if not subject.overrides and subject.source.startswith(OF_PRESETS):
        passes.figures = recorded_of(name)
    return passes


def recorded_of(preset: str) -> Figures | None:
    """What is recorded of a preset; None where nothing is."""
    record = file()["presets"].get(preset)
    if record is None:
        return None
    columns = (dict(zip(file()["formats"], record[name], strict=True)) for name in ("weights", "in_ram"))
    weights, in_ram = ({form: n for form, n in of.items() if n is not None} for of in columns)
    return Figures(weights, in_ram, record["tables"], record["served"])


@cache
def file() -> dict[str, Any]:
    """The whole file; without a preset where it is left out."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"presets": {}}
