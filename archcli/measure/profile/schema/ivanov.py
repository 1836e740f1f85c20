"""The table of Ivanov et al. 2021 in a profile's document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from archcli.measure.profile.schema.base import Amount, Record, Seconds, says
from archcli.measure.profile.schema.figures import Classed


class Paper(Record):
    """What was measured there."""

    measured_on: Annotated[str, says("The machine.")]
    wall_s: Annotated[Seconds, says("Seconds of the layer's forward and backward.")]
    time_shares: Annotated[dict[str, float], says("Share of the time by class; 1 is all.")]


class IvanovClass(Record):
    """A class of operation; FLOPs, words and the paper's share are of its three classes alone."""

    seconds: Annotated[float, says("Seconds of a pass.")]
    time_share: Annotated[float, says("Of the plain wall time; 1 is all.")]
    flops: NotRequired[Annotated[Amount, says("FLOPs counted.")]]
    words: NotRequired[Annotated[Amount, says("Elements read and written.")]]
    flop_share: NotRequired[Annotated[float, says("Of the layer's FLOPs; 1 is all.")]]
    word_share: NotRequired[Annotated[float, says("Of the layer's words; 1 is all.")]]
    share_of_three: NotRequired[
        Annotated[
            float | None, says("Of the time of the paper's three classes; null beside fused attention.")
        ]
    ]
    paper_time_share: NotRequired[Annotated[float, says("Of the time in the paper.")]]


class IvanovOperator(Classed, Record):
    """An operator of the paper. Those measured together have their time, their roof and its share at the first of them."""

    operator: Annotated[str, says("Its name there.")]
    phase: Annotated[Literal["forward", "backward"], says("Where it runs.")]
    flops: Annotated[Amount, says("FLOPs counted.")]
    words_read: Annotated[Amount, says("Elements read.")]
    words_written: Annotated[Amount, says("Elements written.")]
    seconds: Annotated[Seconds | None, says("Seconds of a pass.")]
    timed_with: Annotated[str | None, says("The operator at which the time of both stands.")]
    roof: Annotated[str | None, says("Which of the machine's ceilings binds it.")]
    roof_share: Annotated[float | None, says("How much of that was reached; 1 is all.")]


class Executed(Classed, Record):
    """What torch executed of the layer in a class."""

    operations: Annotated[Amount, says("Torch operations of a pass.")]
    flops: Annotated[Amount | None, says("Their FLOPs; null where a fused kernel is among them.")]
    flop_share: Annotated[float | None, says("Of all executed FLOPs; null where those are not known.")]
    read: Annotated[Amount, says("Elements read.")]
    written: Annotated[Amount, says("Elements written.")]


class Ivanov(Record):
    """The paper's table, counted and measured here."""

    source: Annotated[str, says("The paper.")]
    paper: Annotated[Paper, says("What was measured there.")]
    classes: Annotated[dict[str, IvanovClass], says("By class.")]
    operators: Annotated[list[IvanovOperator], says("By operator, in the table's order.")]
    executed: Annotated[list[Executed], says("As executed, by class.")]
