"""Measured beside predicted: a program's step and the prediction of an architecture, by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.measure.report import Column, Table
from archcli.wings.running.recording.program import class_label

COLUMNS = (
    Column("class", "class"),
    Column("measured_s", "measured", "seconds"),
    Column("predicted_s", "predicted", "seconds"),
    Column("measured_over_predicted", "measured / predicted", "ratio"),
)


def compared_classes(
    shares: Mapping[str, float], predicted: Mapping[Any, float], step_s: float
) -> list[dict[str, Any]]:
    """A record per class, the slowest first; measured seconds are shares of a plain step."""
    seconds = {str(name): float(value) for name, value in predicted.items()}
    measured = {str(name): share * step_s for name, share in shares.items()}
    names = sorted({*seconds, *measured}, key=lambda name: -measured.get(name, 0.0))
    return [
        _record(name, measured.get(name, 0.0), seconds.get(name))
        for name in names
        if measured.get(name) or seconds.get(name)
    ]


def _record(name: str, measured_s: float, predicted_s: float | None) -> dict[str, Any]:
    return {
        "class": name,
        "measured_s": measured_s,
        "predicted_s": predicted_s,
        "measured_over_predicted": measured_s / predicted_s if predicted_s else None,
    }


def beside_table(prediction: Mapping[str, Any]) -> Table:
    """A program's step beside the prediction, class by class, and in all."""
    records = [{**record, "class": class_label(record["class"])} for record in prediction["by_class"]]
    whole = {
        "class": "a step",
        "measured_s": prediction["measured_s"],
        "predicted_s": prediction["predicted_s"],
        "measured_over_predicted": prediction["measured_over_predicted"],
    }
    kind = "limit" if prediction["is_limit"] else "expected"
    title = f"Beside the prediction for {prediction['model']} on {prediction['device']} ({kind})"
    return Table(title, COLUMNS, records, whole)
