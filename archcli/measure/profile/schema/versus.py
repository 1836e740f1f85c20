"""The document of variants that were timed in turn."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from archcli.measure.profile.schema.base import (
    Amount,
    Device,
    Machine,
    Memory,
    ModelName,
    Record,
    RunInputs,
    Seconds,
    described,
)
from archcli.measure.profile.schema.figures import ClassField, CompiledCode

Change = TypedDict(
    "Change",
    {
        "setting": Annotated[str, described("The full path of a field, or a way of running.")],
        "from": Annotated[str, described("What it is in A.")],
        "to": Annotated[str, described("What it is in the variant.")],
    },
)


class Setting(Change, Record):
    """One setting that a variant changes."""


class Ratios(Record):
    """Times of the variant as multiples of A's, one per round of passes.

    Null where A or the variant took no time, and for A itself.
    """

    ratio: Annotated[float | None, described("The median over the rounds.")]
    ratio_q1: Annotated[float | None, described("The lower quartile.")]
    ratio_q3: Annotated[float | None, described("The upper quartile.")]
    ratio_min: Annotated[float | None, described("The least.")]
    ratio_max: Annotated[float | None, described("The most.")]


class ComparedFigures(Record):
    """Time and costs of A and of the variant."""

    base_seconds: Annotated[float, described("Seconds of a pass of A.")]
    seconds: Annotated[float, described("Seconds of a pass of the variant.")]
    difference_s: Annotated[float, described("Seconds by which the variant takes longer.")]
    base_flops: Annotated[Amount, described("FLOPs of A, counted.")]
    flops: Annotated[Amount, described("FLOPs of the variant, counted.")]
    flops_ratio: Annotated[
        float | None, described("The variant's FLOPs as a multiple of A's; null where A has none.")
    ]
    base_bytes: Annotated[Amount, described("Bytes of A.")]
    bytes: Annotated[Amount, described("Bytes of the variant.")]
    bytes_ratio: Annotated[
        float | None, described("The variant's bytes as a multiple of A's; null where A has none.")
    ]


class ComparedOperator(Ratios, ComparedFigures):
    """An operator of A and of the variant."""

    path: Annotated[
        str,
        described(
            "Where it stands in the model, * for the layer's index; of several that were fused, their "
            "common name."
        ),
    ]
    operators: Annotated[
        list[str] | None,
        described("Compiled: the operators that kernels of this line hold; null where none was compiled."),
    ]


class ComparedClass(ClassField, Ratios, ComparedFigures):
    """A class of operation of A and of the variant."""

    variant: Annotated[str, described("The variant's letter.")]


class VariantSummary(Ratios):
    """A variant as a whole; ratios are those of its plain wall time. A is the first."""

    variant: Annotated[str, described("Its letter.")]
    changed: Annotated[str, described("What --vs says of it.")]
    settings: Annotated[list[Setting], described("What that changes.")]
    params: Annotated[Amount, described("Parameters.")]
    params_ratio: Annotated[float | None, described("As a multiple of A's.")]
    matmul_flops: Annotated[Amount, described("FLOPs of matrix products, counted.")]
    other_flops: Annotated[Amount, described("All other FLOPs, counted.")]
    flops_ratio: Annotated[float | None, described("All FLOPs as a multiple of A's.")]
    bytes: Annotated[Amount, described("Bytes read and written by operations that run one by one.")]
    bytes_ratio: Annotated[float | None, described("As a multiple of A's.")]
    dtype: Annotated[str, described("In which numbers it was run.")]
    wall_s: Annotated[Seconds, described("Seconds: the median plain pass.")]
    attributed_share: Annotated[
        float, described("Of the plain wall time, taken by operations of the architecture; 1 is all.")
    ]
    unattributed_share: Annotated[
        float, described("Of the plain wall time, left by operations and framework.")
    ]
    reliable: Annotated[
        bool, described("Whether trace and census agree, and plain and traced passes, to a tenth.")
    ]
    overhead_ratio: Annotated[Seconds, described("A traced pass as a multiple of the plain one, the median.")]
    compiled: Annotated[
        CompiledCode | None,
        described("What torch.compile made of it; null where it was run operation by operation."),
    ]
    operations_executed: Annotated[
        Amount, described("Torch operations in a pass, by the census; compiled, its kernels.")
    ]
    operations_counted: Annotated[Amount, described("Those found in the trace.")]
    operations_differing: Annotated[
        list[str], described("Those that the trace has more or less often, as path:operation.")
    ]
    launches_lost: Annotated[
        list[str],
        described("What the trace of a GPU lacks: kernels without a launch, launches without a kernel."),
    ]
    device: Annotated[
        Device | None, described("What a GPU did; null on a CPU, and where it is extrapolated.")
    ]
    plain_s: Annotated[list[Seconds], described("Seconds of its plain pass in each round.")]
    traced_s: Annotated[list[Seconds], described("Seconds of its traced pass in each round.")]


class ReportedVariant(VariantSummary):
    """A variant with its operators, the largest difference first; A has none."""

    operators: Annotated[list[ComparedOperator], described("Every operator of either.")]


class ComparedTotals(Record):
    """What was measured of all variants."""

    variants: Annotated[list[ReportedVariant], described("A, and each variant.")]
    rounds: Annotated[
        Amount, described("Rounds that count, each with a plain and a traced pass of every variant.")
    ]
    rounds_rejected: Annotated[Amount, described("Rounds in which one was disturbed.")]
    partial: Annotated[bool, described("Whether it was interrupted.")]
    machine: Annotated[Machine, described("What the figures depend on besides the models.")]
    memory: Annotated[Memory, described("What all variants need at once.")]


class ComparedInputs(RunInputs):
    """How all variants were run, and which they are."""

    vs: Annotated[list[str], described("The variants after A, as --vs says them.")]
    set: NotRequired[Annotated[list[str], described("Changes by --set, which all variants have.")]]


class ProfileComparison(Record):
    """What `archcli profile MODEL --vs CHANGE --json` prints."""

    schema_version: Annotated[Literal[1], described("The form of the document.")]
    command: Annotated[Literal["profile"], described("What printed it.")]
    model: Annotated[ModelName, described("The architecture that is A.")]
    inputs: Annotated[ComparedInputs, described("How they were run.")]
    convention: Annotated[str, described("How FLOPs, bytes and ratios are counted.")]
    totals: Annotated[ComparedTotals, described("Each variant as a whole.")]
    rows: Annotated[list[ComparedClass], described("Every class of operation of each variant after A.")]
    notes: Annotated[list[str], described("What must be known to read it, one sentence each.")]
