"""The documents that a profile prints: of one model, and of variants that were timed in turn."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from archcli.modules.spec.values import Meaning
from archcli.wings.serving.recorded.machine import Ceilings
from archcli.wings.serving.recorded.schema.parts import MediumFigures, PartTotals
from archcli.wings.serving.recorded.schema.records import (
    Amount,
    ClassField,
    CollectiveFigures,
    CompiledCode,
    Device,
    DisturbanceFigures,
    EndsFigures,
    Estimates,
    Figures,
    FusedOperators,
    LayerKindFigures,
    Machine,
    Memory,
    ModelName,
    Operator,
    OperatorPath,
    PredictedClass,
    Range,
    RanksFigures,
    Record,
    RunInputs,
    Seconds,
)

# keys that one model and each of several variants have
WallSeconds = Annotated[Seconds, Meaning("Seconds: the median plain pass.")]
AttributedShare = Annotated[
    float, Meaning("Of the plain wall time, taken by operations of the architecture; 1 is all.")
]
Reliable = Annotated[
    bool,
    Meaning(
        "Whether trace and census agree, plain and traced passes to a tenth, and nothing disturbed the "
        "plain passes."
    ),
]
MatmulFlops = Annotated[Amount, Meaning("FLOPs of matrix products, counted.")]
OtherFlops = Annotated[Amount, Meaning("All other FLOPs, counted.")]
MovedBytes = Annotated[Amount, Meaning("Bytes read and written by operations that run one by one.")]
OperationsExecuted = Annotated[
    Amount, Meaning("Torch operations in a pass, by the census; compiled, its kernels.")
]
OperationsDiffering = Annotated[
    list[str], Meaning("Those that the trace has more or less often, as path:operation.")
]
LaunchesLost = Annotated[
    list[str],
    Meaning("What the trace of a GPU lacks: kernels without a launch, launches without a kernel."),
]
OnDevice = Annotated[Device | None, Meaning("What a GPU did; null on a CPU, and where it is extrapolated.")]


class PassFigures(PartTotals):
    """What was measured and counted of one pass of the whole model."""

    wall_s: WallSeconds
    attributed_share: AttributedShare
    framework_share: Annotated[
        float,
        Meaning("Of the plain wall time, taken by Python, dispatch, views and what is outside of any row."),
    ]
    unattributed_share: Annotated[
        float, Meaning("Of the plain wall time, what those two leave; below 0 where they exceed it.")
    ]
    unlabelled_share: Annotated[
        float, Meaning("Of the plain wall time, taken by torch operations outside of any row.")
    ]
    overhead_ratio: Annotated[
        Seconds, Meaning("A traced pass as a multiple of the plain pass before it, the median.")
    ]
    reliable: Reliable
    matmul_flops: MatmulFlops
    other_flops: OtherFlops
    flops_by_class: Annotated[
        dict[str, Amount], Meaning("Counted FLOPs by class, fused attention taken apart.")
    ]
    executed_flops: Annotated[Amount, Meaning("FLOPs that the kernels ran, masked scores included.")]
    bytes: MovedBytes
    by_class: Annotated[
        dict[str, Figures],
        Meaning("By class of operation; framework and unattributed make the times add up."),
    ]
    ceilings: Annotated[
        Ceilings | None,
        Meaning("What the machine can do at best; null where that was not asked or not reached."),
    ]
    processes: Annotated[
        Amount,
        Meaning("How many fresh processes measured it; with several, other figures are medians over them."),
    ]
    pairs: Annotated[Amount, Meaning("Pairs of a plain and a traced pass that count.")]
    pairs_rejected: Annotated[Amount, Meaning("Pairs that were disturbed and do not count.")]
    partial: Annotated[bool, Meaning("Whether it was interrupted.")]
    extrapolated: Annotated[bool, Meaning("Whether it was measured by kinds of layer.")]
    compiled: Annotated[
        CompiledCode | None,
        Meaning("What torch.compile made of the model; null where it was run operation by operation."),
    ]
    plain_s: Annotated[list[Seconds], Meaning("Seconds of every plain pass that counts.")]
    traced_s: Annotated[list[Seconds], Meaning("Seconds of the traced pass after each.")]
    operations_executed: OperationsExecuted
    operations_differing: OperationsDiffering
    launches_lost: LaunchesLost
    device: OnDevice
    page_faults_per_pass: Annotated[Amount, Meaning("Page faults in a plain pass, the median.")]
    system_s_per_pass: Annotated[
        Seconds, Meaning("Seconds all threads of a plain pass spent in the system, the median.")
    ]
    context_switches_per_s: Annotated[
        float, Meaning("Involuntary context switches a second of plain passes.")
    ]
    load_per_processor: Annotated[float, Meaning("Processes that wanted each processor when it began.")]
    # not required, as profiles of schema version 1 were saved before it was measured; so with warnings
    disturbance: NotRequired[
        Annotated[
            DisturbanceFigures, Meaning("What disturbed the plain passes; by kinds of layer, the worst.")
        ]
    ]
    warnings: NotRequired[
        Annotated[list[str], Meaning("The notes on what makes it unreliable, one sentence each.")]
    ]
    machine: Annotated[Machine, Meaning("What the figures depend on besides the model.")]


class Totals(PassFigures):
    """The pass as a whole, and the tables that only some profiles have."""

    memory: Annotated[Memory, Meaning("What the whole model needs.")]
    media: NotRequired[
        Annotated[
            list[MediumFigures], Meaning("Images and sounds in the prompt, whose tokens inputs.seq_len has.")
        ]
    ]
    wall_s_range: NotRequired[
        Annotated[Range, Meaning("Seconds: the least and the most wall_s between processes.")]
    ]
    wall_s_sd: NotRequired[
        Annotated[
            Seconds | None,
            Meaning("Seconds: the standard deviation of wall_s between processes; null of one."),
        ]
    ]
    estimates: NotRequired[Annotated[Estimates, Meaning("By kinds of layer: two estimates of the whole.")]]
    kinds: NotRequired[
        Annotated[list[LayerKindFigures], Meaning("By kinds of layer: each with its own figures.")]
    ]
    ends: NotRequired[Annotated[EndsFigures, Meaning("By kinds of layer: everything but the layers.")]]
    ranks: NotRequired[Annotated[RanksFigures, Meaning("With --tp and --dp: the ranks that measured it.")]]
    prediction: NotRequired[
        Annotated[
            list[PredictedClass],
            Meaning("With --against-prediction: seconds measured and predicted by class, and of all."),
        ]
    ]
    communication: NotRequired[
        Annotated[list[CollectiveFigures], Meaning("With --tp and --dp: what a rank exchanges with others.")]
    ]


class ProfileInputs(RunInputs):
    """How the model was run, and what was left out."""

    layers: Annotated[Amount | None, Meaning("Layers of each stack that were run alone; null is all.")]
    set: NotRequired[Annotated[list[str], Meaning("Changes by --set.")]]
    repeat_process: NotRequired[Annotated[Amount, Meaning("Fresh processes that were asked for.")]]
    tp: NotRequired[Annotated[Amount, Meaning("Ranks that share each matrix.")]]
    dp: NotRequired[Annotated[Amount, Meaning("Replicas, each with its own part of the batch.")]]


class Profile(Record):
    """What `archcli profile MODEL --json` prints."""

    schema_version: Annotated[Literal[1], Meaning("The form of the document.")]
    command: Annotated[Literal["profile"], Meaning("What printed it.")]
    model: Annotated[ModelName, Meaning("The architecture.")]
    inputs: Annotated[ProfileInputs, Meaning("How it was run.")]
    convention: Annotated[str, Meaning("How FLOPs, bytes and shares are counted.")]
    totals: Annotated[Totals, Meaning("The pass as a whole, and by class of operation.")]
    rows: Annotated[list[Operator], Meaning("Every operator, the slowest first.")]
    notes: Annotated[list[str], Meaning("What must be known to read it, one sentence each.")]


# by call, as the key `from` is a keyword of Python
Change = TypedDict(
    "Change",
    {
        "setting": Annotated[str, Meaning("The full path of a field, or a way of running.")],
        "from": Annotated[str, Meaning("What it is in A.")],
        "to": Annotated[str, Meaning("What it is in the variant.")],
    },
)


class Setting(Change, Record):
    """One setting that a variant changes."""


class Ratios(Record):
    """Times of the variant as multiples of A's, one per round of passes.

    Null where A or the variant took no time, and for A itself.
    """

    ratio: Annotated[float | None, Meaning("The median over the rounds.")]
    ratio_q1: Annotated[float | None, Meaning("The lower quartile.")]
    ratio_q3: Annotated[float | None, Meaning("The upper quartile.")]
    ratio_min: Annotated[float | None, Meaning("The least.")]
    ratio_max: Annotated[float | None, Meaning("The most.")]


class ComparedFigures(Record):
    """Time and costs of A and of the variant."""

    base_seconds: Annotated[float, Meaning("Seconds of a pass of A.")]
    seconds: Annotated[float, Meaning("Seconds of a pass of the variant.")]
    difference_s: Annotated[float, Meaning("Seconds by which the variant takes longer.")]
    base_flops: Annotated[Amount, Meaning("FLOPs of A, counted.")]
    flops: Annotated[Amount, Meaning("FLOPs of the variant, counted.")]
    flops_ratio: Annotated[
        float | None, Meaning("The variant's FLOPs as a multiple of A's; null where A has none.")
    ]
    base_bytes: Annotated[Amount, Meaning("Bytes of A.")]
    bytes: Annotated[Amount, Meaning("Bytes of the variant.")]
    bytes_ratio: Annotated[
        float | None, Meaning("The variant's bytes as a multiple of A's; null where A has none.")
    ]


class ComparedOperator(Ratios, ComparedFigures):
    """An operator of A and of the variant."""

    path: OperatorPath
    operators: FusedOperators


class ComparedClass(ClassField, Ratios, ComparedFigures):
    """A class of operation of A and of the variant."""

    variant: Annotated[str, Meaning("The variant's letter.")]


class VariantSummary(Ratios):
    """A variant as a whole; ratios are those of its plain wall time. A is the first."""

    variant: Annotated[str, Meaning("Its letter.")]
    changed: Annotated[str, Meaning("What --vs says of it.")]
    settings: Annotated[list[Setting], Meaning("What that changes.")]
    params: Annotated[Amount, Meaning("Parameters.")]
    params_ratio: Annotated[float | None, Meaning("As a multiple of A's.")]
    matmul_flops: MatmulFlops
    other_flops: OtherFlops
    flops_ratio: Annotated[float | None, Meaning("All FLOPs as a multiple of A's.")]
    bytes: MovedBytes
    bytes_ratio: Annotated[float | None, Meaning("As a multiple of A's.")]
    dtype: Annotated[str, Meaning("In which numbers it was run.")]
    wall_s: WallSeconds
    attributed_share: AttributedShare
    unattributed_share: Annotated[float, Meaning("Of the plain wall time, left by operations and framework.")]
    reliable: Reliable
    overhead_ratio: Annotated[Seconds, Meaning("A traced pass as a multiple of the plain one, the median.")]
    compiled: Annotated[
        CompiledCode | None,
        Meaning("What torch.compile made of it; null where it was run operation by operation."),
    ]
    operations_executed: OperationsExecuted
    operations_counted: Annotated[Amount, Meaning("Those found in the trace.")]
    operations_differing: OperationsDiffering
    launches_lost: LaunchesLost
    device: OnDevice
    disturbance: NotRequired[Annotated[DisturbanceFigures, Meaning("What disturbed its plain passes.")]]
    plain_s: Annotated[list[Seconds], Meaning("Seconds of its plain pass in each round.")]
    traced_s: Annotated[list[Seconds], Meaning("Seconds of its traced pass in each round.")]


class ReportedVariant(VariantSummary):
    """A variant with its operators, the largest difference first; A has none."""

    operators: Annotated[list[ComparedOperator], Meaning("Every operator of either.")]


class ComparedTotals(Record):
    """What was measured of all variants."""

    variants: Annotated[list[ReportedVariant], Meaning("A, and each variant.")]
    rounds: Annotated[
        Amount, Meaning("Rounds that count, each with a plain and a traced pass of every variant.")
    ]
    rounds_rejected: Annotated[Amount, Meaning("Rounds in which one was disturbed.")]
    partial: Annotated[bool, Meaning("Whether it was interrupted.")]
    machine: Annotated[Machine, Meaning("What the figures depend on besides the models.")]
    memory: Annotated[Memory, Meaning("What all variants need at once.")]


class ComparedInputs(RunInputs):
    """How all variants were run, and which they are."""

    vs: Annotated[list[str], Meaning("The variants after A, as --vs says them.")]
    set: NotRequired[Annotated[list[str], Meaning("Changes by --set, which all variants have.")]]


class ProfileComparison(Record):
    """What `archcli profile MODEL --vs CHANGE --json` prints."""

    schema_version: Annotated[Literal[1], Meaning("The form of the document.")]
    command: Annotated[Literal["profile"], Meaning("What printed it.")]
    model: Annotated[ModelName, Meaning("The architecture that is A.")]
    inputs: Annotated[ComparedInputs, Meaning("How they were run.")]
    convention: Annotated[str, Meaning("How FLOPs, bytes and ratios are counted.")]
    totals: Annotated[ComparedTotals, Meaning("Each variant as a whole.")]
    rows: Annotated[list[ComparedClass], Meaning("Every class of operation of each variant after A.")]
    notes: Annotated[list[str], Meaning("What must be known to read it, one sentence each.")]
