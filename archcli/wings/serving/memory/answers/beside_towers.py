"""Totals and notes on towers in `archcli memory`: weights, activations, and tokens of media.

Imported only for a model with towers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.notes import media_records
from archcli.measure.weights.stored_bytes import tower_bytes
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.parts.towers import tower_passes

Record = dict[str, Any]


def tower_totals(question: MemoryQuestion) -> Record:
    """Bytes of the towers on a device, and tokens of each image or sound, by JSON's keys."""
    model, settings = question.model, question.settings
    # a data-parallel replica serves its share of the batch
    per_device = settings if settings.phase == "train" else question.plan.of_replica(settings)
    passes = tower_passes(question.traced, per_device)
    held = {
        "weights_bytes": tower_bytes(model, settings.dtype),
        "kept_bytes": int(sum(it.kept for it in passes)),
        "features_bytes": int(sum(it.features for it in passes)),
    }
    if not settings.media:
        return {"towers": held}
    records = media_records(model, settings.media)
    return {"towers": held, "media": records, "prompt_tokens": int(settings.prompt_tokens(model))}


def tower_notes(question: MemoryQuestion, towers: Record) -> Iterator[str]:
    """Notes on the bytes of towers."""
    model, settings = question.model, question.settings
    size = binary_bytes(sum(towers["weights_bytes"].values()))
    regardless = ", whatever the format of the language model's matrices" if model.quantization else ""
    parts = " and ".join(towers["weights_bytes"])
    yield f"Of the weights {size} are of {parts}, in {settings.dtype}{regardless}."
    if question.plan.devices > 1:
        yield "Towers and projectors are whole on every device of the first stage."
    if not settings.media:
        yield "Without --image, --video or --audio-… towers do not run: their weights alone count."
    elif settings.phase != "decode":
        waiting = binary_bytes(towers["features_bytes"])
        yield f"Towers run before the language model, one medium after the other; {waiting} wait for it."
    if settings.phase == "train" and model.lora is not None:
        yield "LoRA trains adapters of the language model: towers are frozen, and keep nothing."
