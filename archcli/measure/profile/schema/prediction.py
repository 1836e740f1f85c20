"""Predicted times that stand beside measured ones."""

from __future__ import annotations

from typing import Annotated

from archcli.measure.profile.schema.base import Record, Seconds
from archcli.measure.profile.schema.figures import ClassField
from archcli.modules.spec.values import Meaning

Expected = Seconds | None


class PredictedClass(ClassField, Record):
    """Seconds of a class of operation, measured and predicted; the last is of all that is predicted."""

    measured_s: Annotated[float, Meaning("Seconds measured; of what is unattributed perhaps below zero.")]
    floor_s: Annotated[Seconds, Meaning("Seconds at the machine's ceilings.")]
    expected_s: Annotated[Expected, Meaning("Seconds expected; null without constants for it.")]
    low_s: Annotated[Expected, Meaning("Seconds at the low end of the range; null as above.")]
    high_s: Annotated[Expected, Meaning("Seconds at the high end of the range; null as above.")]
    expected_over_measured: Annotated[
        float | None, Meaning("Expected seconds as a multiple of those measured; null as above.")
    ]
