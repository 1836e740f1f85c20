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


def lines_of(document: Document) -> tuple[str, ...]:
    """How a pass was measured, how far its parts are from all of it, and its warnings."""
    left = document["totals"]["unattributed_share"]
    more = f"operators and framework take {-left:.1%} more than a pass without tracing: 100% is their sum"
    return (conditions_of(document), *([more] if left < 0 else ()), *warnings_of(document))


def warnings_of(document: Document) -> list[str]:
    """The warnings; of a document saved before they were kept apart, those notes that begin as one."""
    totals = document["totals"]
    if totals.get("reliable", True):
        return list(totals.get("warnings", ()))
    early = [note for note in document["notes"] if "NOT RELIABLE" in note]
    return list(totals.get("warnings", early)) or ["NOT RELIABLE, see the notes."]
