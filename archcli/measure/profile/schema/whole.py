"""The document of a profile of one model."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from archcli.measure.profile.schema.base import (
    Amount,
    Device,
    Machine,
    Memory,
    Model,
    Ran,
    Range,
    Record,
    Seconds,
    says,
)
from archcli.measure.profile.schema.figures import Compiled, Figures, Operator
from archcli.measure.profile.schema.ivanov import Ivanov
from archcli.measure.profile.schema.kinds import Ends, Estimates, Kind
from archcli.recording.ceilings import Ceilings


class Measured(Record):
    """What was measured and counted of one pass of the whole model."""

    wall_s: Annotated[Seconds, says("Seconds: the median plain pass.")]
    attributed_share: Annotated[
        float, says("Of the plain wall time, taken by operations of the architecture; 1 is all.")
    ]
    framework_share: Annotated[
        float,
        says("Of the plain wall time, taken by Python, dispatch, views and what is outside of any row."),
    ]
    unattributed_share: Annotated[
        float, says("Of the plain wall time, what those two leave; below 0 where they exceed it.")
    ]
    unlabelled_share: Annotated[
        float, says("Of the plain wall time, taken by torch operations outside of any row.")
    ]
    overhead_ratio: Annotated[
        Seconds, says("A traced pass as a multiple of the plain pass before it, the median.")
    ]
    reliable: Annotated[
        bool, says("Whether trace and census agree, and plain and traced passes, to a tenth.")
    ]
    matmul_flops: Annotated[Amount, says("FLOPs of matrix products, counted.")]
    other_flops: Annotated[Amount, says("All other FLOPs, counted.")]
    flops_by_class: Annotated[dict[str, Amount], says("Counted FLOPs by class, fused attention taken apart.")]
    executed_flops: Annotated[Amount, says("FLOPs that the kernels ran, masked scores included.")]
    bytes: Annotated[Amount, says("Bytes read and written by operations that run one by one.")]
    by_class: Annotated[
        dict[str, Figures], says("By class of operation; framework and unattributed make the times add up.")
    ]
    ceilings: Annotated[
        Ceilings | None,
        says("What the machine can do at best; null where that was not asked or not reached."),
    ]
    processes: Annotated[
        Amount,
        says("How many fresh processes measured it; with several, other figures are medians over them."),
    ]
    pairs: Annotated[Amount, says("Pairs of a plain and a traced pass that count.")]
    pairs_rejected: Annotated[Amount, says("Pairs that were disturbed and do not count.")]
    partial: Annotated[bool, says("Whether it was interrupted.")]
    extrapolated: Annotated[bool, says("Whether it was measured by kinds of layer.")]
    compiled: Annotated[
        Compiled | None,
        says("What torch.compile made of the model; null where it was run operation by operation."),
    ]
    plain_s: Annotated[list[Seconds], says("Seconds of every plain pass that counts.")]
    traced_s: Annotated[list[Seconds], says("Seconds of the traced pass after each.")]
    operations_executed: Annotated[
        Amount, says("Torch operations in a pass, by the census; compiled, its kernels.")
    ]
    operations_differing: Annotated[
        list[str], says("Those that the trace has more or less often, as path:operation.")
    ]
    launches_lost: Annotated[
        list[str], says("What the trace of a GPU lacks: kernels without a launch, launches without a kernel.")
    ]
    device: Annotated[Device | None, says("What a GPU did; null on a CPU, and where it is extrapolated.")]
    page_faults_per_pass: Annotated[Amount, says("Page faults in a plain pass, the median.")]
    system_s_per_pass: Annotated[
        Seconds, says("Seconds all threads of a plain pass spent in the system, the median.")
    ]
    context_switches_per_s: Annotated[float, says("Involuntary context switches a second of plain passes.")]
    load_per_processor: Annotated[float, says("Processes that wanted each processor when it began.")]
    machine: Annotated[Machine, says("What the figures depend on besides the model.")]


class Totals(Measured):
    """With what was asked besides."""

    memory: Annotated[Memory, says("What the whole model needs.")]
    wall_s_range: NotRequired[
        Annotated[Range, says("Seconds: the least and the most wall_s between processes.")]
    ]
    wall_s_sd: NotRequired[
        Annotated[
            Seconds | None, says("Seconds: the standard deviation of wall_s between processes; null of one.")
        ]
    ]
    estimates: NotRequired[Annotated[Estimates, says("By kinds of layer: two estimates of the whole.")]]
    kinds: NotRequired[Annotated[list[Kind], says("By kinds of layer: each with its own figures.")]]
    ends: NotRequired[Annotated[Ends, says("By kinds of layer: everything but the layers.")]]
    ivanov: NotRequired[
        Annotated[Ivanov, says("The table of Ivanov et al. 2021, of the workload of that name.")]
    ]


class Inputs(Ran):
    """What was asked."""

    layers: Annotated[Amount | None, says("Layers of each stack that were run alone; null is all.")]
    set: NotRequired[Annotated[list[str], says("Changes by --set.")]]
    repeat_process: NotRequired[Annotated[Amount, says("Fresh processes that were asked for.")]]


class Profile(Record):
    """What `archcli profile MODEL --json` prints."""

    schema_version: Annotated[Literal[1], says("The form of the document.")]
    command: Annotated[Literal["profile"], says("What printed it.")]
    model: Annotated[Model, says("The architecture.")]
    inputs: Annotated[Inputs, says("How it was run.")]
    convention: Annotated[str, says("How FLOPs, bytes and shares are counted.")]
    totals: Annotated[Totals, says("The pass as a whole, and by class of operation.")]
    rows: Annotated[list[Operator], says("Every operator, the slowest first.")]
    notes: Annotated[list[str], says("What must be known to read it, one sentence each.")]
