"""How a saved profile was measured, and what it warns of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def conditions_of(document: Document) -> str:
    """How and on what the model was run, and how long a pass took."""
    inputs, totals = document["inputs"], document["totals"]
    details = [
        f"{key.replace('_', ' ')} {inputs[key]}"
        for key in ("phase", "batch_size", "seq_len", "past", "dtype")
        if inputs.get(key)
    ]
    machine = totals.get("machine", {})
    details.append(str(machine.get("CPU" if inputs["device"] == "cpu" else "processor", inputs["device"])))
    return f"{', '.join(details)}; {totals['wall_s'] * 1e3:,.1f} ms a pass"


def warnings_of(document: Document) -> list[str]:
    """The warnings; of a document saved before they were kept apart, those notes that begin as one."""
    totals = document["totals"]
    if totals.get("reliable", True):
        return list(totals.get("warnings", ()))
    early = [note for note in document["notes"] if "NOT RELIABLE" in note]
    return list(totals.get("warnings", early)) or ["NOT RELIABLE, see the notes."]
