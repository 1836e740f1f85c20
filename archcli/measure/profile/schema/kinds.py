"""Records of a profile by kinds of layer: each kind, the embedding and head, both estimates."""

from __future__ import annotations

from typing import Annotated

from archcli.measure.profile.schema.base import Amount, Memory, Record, Seconds
from archcli.modules.spec.values import Meaning


class LayerKindFigures(Record):
    """Equal layers, and what was measured of small stacks of them."""

    kind: Annotated[str, Meaning("The path of the first such layer.")]
    what: Annotated[str, Meaning("Its attention and its feed-forward network.")]
    layers: Annotated[Amount, Meaning("How many layers of the model are of the kind.")]
    walls_s: Annotated[
        dict[str, Seconds], Meaning("Seconds of a plain pass, by the number of layers in the stack.")
    ]
    slope_s: Annotated[float, Meaning("Seconds that one more layer adds to the wall time.")]
    operations_s: Annotated[Seconds, Meaning("Seconds of one layer's operations.")]
    by_class_s: Annotated[dict[str, Seconds], Meaning("Seconds of one layer's operations by class.")]
    share: Annotated[float, Meaning("What all layers of the kind are of the whole wall time; 1 is all.")]
    memory: Annotated[Memory, Meaning("What the larger stack needed.")]
    experts: Annotated[Amount | None, Meaning("Experts of a layer where some share memory, else null.")]
    distinct_experts: Annotated[
        Amount | None, Meaning("How many of them had memory of their own, else null.")
    ]


class EndsFigures(Record):
    """Everything but the layers: embedding and head."""

    wall_s: Annotated[Seconds, Meaning("Seconds of a plain pass.")]
    memory: Annotated[Memory, Meaning("What it needed.")]


class Estimates(Record):
    """Two estimates of the whole pass."""

    operations_and_framework_s: Annotated[
        float, Meaning("Seconds of the operations of the layers and the rest, and of the framework.")
    ]
    slope_s: Annotated[float, Meaning("Seconds of the slopes of the layers and of the rest: totals.wall_s.")]
