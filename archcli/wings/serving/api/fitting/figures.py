"""What is recorded of presets, so that a list of what fits traces no pass of them.

`python release/fit_figures.py` makes load/figures.json, and a test holds it to what `memory` counts.
"""

from __future__ import annotations

from archcli.api.asking.subject import Subject
from archcli.wings.serving.load.figures import figures
from archcli.wings.serving.memory.parts.beside import KnownBytes
from archcli.wings.serving.memory.traced import Passes, passes_of

OF_PRESETS = "preset "
"""What begins the source of a preset."""


def with_figures(subject: Subject) -> Passes:
    """The passes of a model, of a preset as it is shipped with its figures; for as long as they are kept."""
    passes, name = passes_of(subject.model), subject.source.removeprefix(OF_PRESETS)
    if not subject.overrides and subject.source.startswith(OF_PRESETS):
        passes.figures = recorded_of(name)
    return passes


def recorded_of(preset: str) -> KnownBytes | None:
    """What is recorded of a preset; None where nothing is."""
    record = figures()["presets"].get(preset)
    if record is None:
        return None
    columns = (dict(zip(figures()["formats"], record[name], strict=True)) for name in ("weights", "in_ram"))
    weights, in_ram = ({form: n for form, n in of.items() if n is not None} for of in columns)
    return KnownBytes(weights, in_ram, record["tables"], record["served"])
