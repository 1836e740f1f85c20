"""Records of the table of Ivanov et al. 2021 (arXiv:2007.00072) in a profile's document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from archcli.measure.profile.schema.base import Amount, Record, Seconds
from archcli.measure.profile.schema.figures import ClassField
from archcli.modules.spec.values import Meaning


class Paper(Record):
    """What the paper measured."""

    measured_on: Annotated[str, Meaning("The machine.")]
    wall_s: Annotated[Seconds, Meaning("Seconds of the layer's forward and backward.")]
    time_shares: Annotated[dict[str, float], Meaning("Share of the time by class; 1 is all.")]


class IvanovClass(Record):
    """A class of operation; FLOPs, words and the paper's share are of its three classes alone."""

    seconds: Annotated[float, Meaning("Seconds of a pass.")]
    time_share: Annotated[float, Meaning("Of the plain wall time; 1 is all.")]
    flops: NotRequired[Annotated[Amount, Meaning("FLOPs counted.")]]
    words: NotRequired[Annotated[Amount, Meaning("Elements read and written.")]]
    flop_share: NotRequired[Annotated[float, Meaning("Of the layer's FLOPs; 1 is all.")]]
    word_share: NotRequired[Annotated[float, Meaning("Of the layer's words; 1 is all.")]]
    share_of_three: NotRequired[
        Annotated[
            float | None, Meaning("Of the time of the paper's three classes; null beside fused attention.")
        ]
    ]
    paper_time_share: NotRequired[Annotated[float, Meaning("Of the time in the paper.")]]


class IvanovOperator(ClassField, Record):
    """An operator of the paper.

    Of operators that were measured together, the first has the time, the roof and its share.
    """

    operator: Annotated[str, Meaning("Its name there.")]
    phase: Annotated[Literal["forward", "backward"], Meaning("Where it runs.")]
    flops: Annotated[Amount, Meaning("FLOPs counted.")]
    words_read: Annotated[Amount, Meaning("Elements read.")]
    words_written: Annotated[Amount, Meaning("Elements written.")]
    seconds: Annotated[Seconds | None, Meaning("Seconds of a pass.")]
    timed_with: Annotated[str | None, Meaning("The operator at which the time of both stands.")]
    roof: Annotated[str | None, Meaning("Which of the machine's ceilings binds it.")]
    roof_share: Annotated[float | None, Meaning("How much of that was reached; 1 is all.")]


class ExecutedClass(ClassField, Record):
    """Torch operations of one class that the layer executed."""

    operations: Annotated[Amount, Meaning("Torch operations of a pass.")]
    flops: Annotated[Amount | None, Meaning("Their FLOPs; null where a fused kernel is among them.")]
    flop_share: Annotated[float | None, Meaning("Of all executed FLOPs; null where those are not known.")]
    read: Annotated[Amount, Meaning("Elements read.")]
    written: Annotated[Amount, Meaning("Elements written.")]


class IvanovTable(Record):
    """The paper's table, counted and measured here."""

    source: Annotated[str, Meaning("The paper.")]
    paper: Annotated[Paper, Meaning("What was measured there.")]
    classes: Annotated[dict[str, IvanovClass], Meaning("By class.")]
    operators: Annotated[list[IvanovOperator], Meaning("By operator, in the table's order.")]
    executed: Annotated[list[ExecutedClass], Meaning("As executed, by class.")]
