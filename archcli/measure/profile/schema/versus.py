"""The document of variants timed against one another."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from archcli.measure.profile.schema.base import (
    Amount,
    Device,
    Machine,
    Memory,
    Model,
    Ran,
    Record,
    Seconds,
    says,
)
from archcli.measure.profile.schema.figures import Classed, Compiled

Change = TypedDict(
    "Change",
    {
        "setting": Annotated[str, says("The full path of a field, or a way of running.")],
        "from": Annotated[str, says("What it is in A.")],
        "to": Annotated[str, says("What it is in the variant.")],
    },
)


class Setting(Change, Record):
    """What a variant changes, one setting of it."""


class Ratios(Record):
    """Times of the variant as multiples of A's, one a round; null where one of the two took no time, and of A itself."""

    ratio: Annotated[float | None, says("The median over the rounds.")]
    ratio_q1: Annotated[float | None, says("The lower quartile.")]
    ratio_q3: Annotated[float | None, says("The upper quartile.")]
    ratio_min: Annotated[float | None, says("The least.")]
    ratio_max: Annotated[float | None, says("The most.")]


class Both(Record):
    """Time and costs of A and of the variant."""

    base_seconds: Annotated[float, says("Seconds of a pass of A.")]
    seconds: Annotated[float, says("Seconds of a pass of the variant.")]
    difference_s: Annotated[float, says("Seconds by which the variant takes longer.")]
    base_flops: Annotated[Amount, says("FLOPs of A, counted.")]
    flops: Annotated[Amount, says("FLOPs of the variant, counted.")]
    flops_ratio: Annotated[
        float | None, says("The variant's FLOPs as a multiple of A's; null where A has none.")
    ]
    base_bytes: Annotated[Amount, says("Bytes of A.")]
    bytes: Annotated[Amount, says("Bytes of the variant.")]
    bytes_ratio: Annotated[
        float | None, says("The variant's bytes as a multiple of A's; null where A has none.")
    ]


class ComparedOperator(Ratios, Both):
    """An operator of A and of the variant."""

    path: Annotated[
        str,
        says(
            "Where it stands in the model, * for the layer's index; of several that were fused, their common name."
        ),
    ]
    operators: Annotated[
        list[str] | None,
        says("Compiled: the operators that kernels of this line hold; null where none was compiled."),
    ]


class ComparedClass(Classed, Ratios, Both):
    """A class of operation of A and of the variant."""

    variant: Annotated[str, says("The variant's letter.")]


class Variant(Ratios):
    """One of those compared, A the first; ratios are of its plain wall time."""

    variant: Annotated[str, says("Its letter.")]
    changed: Annotated[str, says("What --vs says of it.")]
    settings: Annotated[list[Setting], says("What that changes.")]
    params: Annotated[Amount, says("Parameters.")]
    params_ratio: Annotated[float | None, says("As a multiple of A's.")]
    matmul_flops: Annotated[Amount, says("FLOPs of matrix products, counted.")]
    other_flops: Annotated[Amount, says("All other FLOPs, counted.")]
    flops_ratio: Annotated[float | None, says("All FLOPs as a multiple of A's.")]
    bytes: Annotated[Amount, says("Bytes read and written by operations that run one by one.")]
    bytes_ratio: Annotated[float | None, says("As a multiple of A's.")]
    dtype: Annotated[str, says("In which numbers it was run.")]
    wall_s: Annotated[Seconds, says("Seconds: the median plain pass.")]
    attributed_share: Annotated[
        float, says("Of the plain wall time, taken by operations of the architecture; 1 is all.")
    ]
    unattributed_share: Annotated[float, says("Of the plain wall time, left by operations and framework.")]
    reliable: Annotated[
        bool, says("Whether trace and census agree, and plain and traced passes, to a tenth.")
    ]
    overhead_ratio: Annotated[Seconds, says("A traced pass as a multiple of the plain one, the median.")]
    compiled: Annotated[
        Compiled | None, says("What torch.compile made of it; null where it was run operation by operation.")
    ]
    operations_executed: Annotated[
        Amount, says("Torch operations in a pass, by the census; compiled, its kernels.")
    ]
    operations_counted: Annotated[Amount, says("Those found in the trace.")]
    operations_differing: Annotated[
        list[str], says("Those that the trace has more or less often, as path:operation.")
    ]
    launches_lost: Annotated[
        list[str], says("What the trace of a GPU lacks: kernels without a launch, launches without a kernel.")
    ]
    device: Annotated[Device | None, says("What a GPU did; null on a CPU, and where it is extrapolated.")]
    plain_s: Annotated[list[Seconds], says("Seconds of its plain pass in each round.")]
    traced_s: Annotated[list[Seconds], says("Seconds of its traced pass in each round.")]


class ReportedVariant(Variant):
    """The same with its operators, those first whose time differs most; of A none."""

    operators: Annotated[list[ComparedOperator], says("Every operator of either.")]


class ComparedTotals(Record):
    """What was measured of all variants."""

    variants: Annotated[list[ReportedVariant], says("A, and each variant.")]
    rounds: Annotated[
        Amount, says("Rounds that count, each with a plain and a traced pass of every variant.")
    ]
    rounds_rejected: Annotated[Amount, says("Rounds in which one was disturbed.")]
    partial: Annotated[bool, says("Whether it was interrupted.")]
    machine: Annotated[Machine, says("What the figures depend on besides the models.")]
    memory: Annotated[Memory, says("What all variants need at once.")]


class ComparedInputs(Ran):
    """What was asked."""

    vs: Annotated[list[str], says("The variants after A, as --vs says them.")]
    set: NotRequired[Annotated[list[str], says("Changes by --set, which all variants have.")]]


class Comparison(Record):
    """What `archcli profile MODEL --vs CHANGE --json` prints."""

    schema_version: Annotated[Literal[1], says("The form of the document.")]
    command: Annotated[Literal["profile"], says("What printed it.")]
    model: Annotated[Model, says("The architecture that is A.")]
    inputs: Annotated[ComparedInputs, says("How they were run.")]
    convention: Annotated[str, says("How FLOPs, bytes and ratios are counted.")]
    totals: Annotated[ComparedTotals, says("Each variant as a whole.")]
    rows: Annotated[list[ComparedClass], says("Every class of operation of each variant after A.")]
    notes: Annotated[list[str], says("What must be known to read it, one sentence each.")]
