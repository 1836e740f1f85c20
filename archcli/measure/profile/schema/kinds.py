"""What a profile by kinds of layer says besides."""

from __future__ import annotations

from typing import Annotated

from archcli.measure.profile.schema.base import Amount, Memory, Record, Seconds, says


class Kind(Record):
    """Layers that are equal: what was measured of small stacks of them."""

    kind: Annotated[str, says("The path of the first such layer.")]
    what: Annotated[str, says("Its attention and its feed-forward network.")]
    layers: Annotated[Amount, says("How many layers of the model are of the kind.")]
    walls_s: Annotated[
        dict[str, Seconds], says("Seconds of a plain pass, by the number of layers in the stack.")
    ]
    slope_s: Annotated[float, says("Seconds that one more layer adds to the wall time.")]
    operations_s: Annotated[Seconds, says("Seconds of one layer's operations.")]
    by_class_s: Annotated[dict[str, Seconds], says("Seconds of one layer's operations by class.")]
    share: Annotated[float, says("What all layers of the kind are of the whole wall time; 1 is all.")]
    memory: Annotated[Memory, says("What the larger stack needed.")]
    experts: Annotated[Amount | None, says("Experts of a layer where some share memory, else null.")]
    distinct_experts: Annotated[Amount | None, says("How many of them had memory of their own, else null.")]


class Ends(Record):
    """Everything but the layers: embedding and head."""

    wall_s: Annotated[Seconds, says("Seconds of a plain pass.")]
    memory: Annotated[Memory, says("What it needed.")]


class Estimates(Record):
    """Two estimates of the whole pass."""

    operations_and_framework_s: Annotated[
        float, says("Seconds of the operations of the layers and the rest, and of the framework.")
    ]
    slope_s: Annotated[float, says("Seconds of the slopes of the layers and of the rest: totals.wall_s.")]
