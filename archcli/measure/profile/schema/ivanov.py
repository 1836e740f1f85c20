"""Records of the table of Ivanov et al. 2021 (arXiv:2007.00072) in a profile's document."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from archcli.measure.profile.schema.base import Amount, Record, Seconds, described
from archcli.measure.profile.schema.figures import ClassField


class Paper(Record):
    """What the paper measured."""

    measured_on: Annotated[str, described("The machine.")]
    wall_s: Annotated[Seconds, described("Seconds of the layer's forward and backward.")]
    time_shares: Annotated[dict[str, float], described("Share of the time by class; 1 is all.")]


class IvanovClass(Record):
    """A class of operation; FLOPs, words and the paper's share are of its three classes alone."""

    seconds: Annotated[float, described("Seconds of a pass.")]
    time_share: Annotated[float, described("Of the plain wall time; 1 is all.")]
    flops: NotRequired[Annotated[Amount, described("FLOPs counted.")]]
    words: NotRequired[Annotated[Amount, described("Elements read and written.")]]
    flop_share: NotRequired[Annotated[float, described("Of the layer's FLOPs; 1 is all.")]]
    word_share: NotRequired[Annotated[float, described("Of the layer's words; 1 is all.")]]
    share_of_three: NotRequired[
        Annotated[
            float | None, described("Of the time of the paper's three classes; null beside fused attention.")
        ]
    ]
    paper_time_share: NotRequired[Annotated[float, described("Of the time in the paper.")]]


class IvanovOperator(ClassField, Record):
    """An operator of the paper.

    Of operators that were measured together, the first has the time, the roof and its share.
    """

    operator: Annotated[str, described("Its name there.")]
    phase: Annotated[Literal["forward", "backward"], described("Where it runs.")]
    flops: Annotated[Amount, described("FLOPs counted.")]
    words_read: Annotated[Amount, described("Elements read.")]
    words_written: Annotated[Amount, described("Elements written.")]
    seconds: Annotated[Seconds | None, described("Seconds of a pass.")]
    timed_with: Annotated[str | None, described("The operator at which the time of both stands.")]
    roof: Annotated[str | None, described("Which of the machine's ceilings binds it.")]
    roof_share: Annotated[float | None, described("How much of that was reached; 1 is all.")]


class ExecutedClass(ClassField, Record):
    """Torch operations of one class that the layer executed."""

    operations: Annotated[Amount, described("Torch operations of a pass.")]
    flops: Annotated[Amount | None, described("Their FLOPs; null where a fused kernel is among them.")]
    flop_share: Annotated[float | None, described("Of all executed FLOPs; null where those are not known.")]
    read: Annotated[Amount, described("Elements read.")]
    written: Annotated[Amount, described("Elements written.")]


class IvanovTable(Record):
    """The paper's table, counted and measured here."""

    source: Annotated[str, described("The paper.")]
    paper: Annotated[Paper, described("What was measured there.")]
    classes: Annotated[dict[str, IvanovClass], described("By class.")]
    operators: Annotated[list[IvanovOperator], described("By operator, in the table's order.")]
    executed: Annotated[list[ExecutedClass], described("As executed, by class.")]
