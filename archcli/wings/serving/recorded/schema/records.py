"""Records within a profile's JSON, each key with its meaning and unit.

How a pass was run, its memory, its GPU, what disturbed it; figures by class and operator; kinds of layer,
ranks and predictions.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from archcli.modules.spec.values import Interval, Length, Meaning


class Record(TypedDict):
    """A JSON object that has the named keys and no others."""


Amount = Annotated[int, Interval(ge=0)]
"""A whole number of something, exact."""
Seconds = Annotated[float, Interval(ge=0)]
"""A time; differences of times may be negative and are plain floats."""
Range = Annotated[list[float], Length(2, 2)]
"""Least and most."""


class ModelName(Record):
    """The architecture."""

    name: Annotated[str, Meaning("What it is called.")]
    source: Annotated[str, Meaning("The file or preset it came from.")]


class RunInputs(Record):
    """How a profile was run."""

    phase: Annotated[str, Meaning("forward, train (forward and backward), prefill or decode.")]
    batch_size: Annotated[Amount, Meaning("Sequences side by side.")]
    seq_len: Annotated[Amount, Meaning("New tokens in each.")]
    past: Annotated[Amount, Meaning("Tokens in the cache before the new ones.")]
    source_len: Annotated[
        Amount | None, Meaning("Positions an encoder-decoder's encoder has; null for any other model.")
    ]
    mla: NotRequired[
        Annotated[
            str | None,
            Meaning("Form of latent attention, naive or absorbed; null for a model without it."),
        ]
    ]
    scan: NotRequired[
        Annotated[
            str | None,
            Meaning("Form of recurrent layers, chunked or recurrent; null for a model without them."),
        ]
    ]
    dtype: Annotated[str, Meaning("In which numbers it was run.")]
    device: Annotated[str, Meaning("cpu, cuda or cuda:N.")]
    hide_launch: Annotated[
        bool, Meaning("Whether launches were hidden behind a kernel that waits: of a GPU.")
    ]
    attention: Annotated[
        str, Meaning("sdpa: torch's fused kernel where it can; eager: products and softmax apart.")
    ]
    compile: Annotated[bool, Meaning("Whether it was run under torch.compile.")]
    threads: Annotated[
        Amount | None, Meaning("Threads within an operation, as asked; null is torch's choice.")
    ]
    pairs: Annotated[
        Amount | None,
        Meaning("Plain and traced passes, as asked; null is as many as the time allows, up to ten."),
    ]


class Memory(Record):
    """Memory that a run needs, in bytes, read from the rows before anything is built."""

    weights_bytes: Annotated[Amount, Meaning("Bytes of all weights.")]
    gradients_bytes: Annotated[
        Amount, Meaning("Bytes of their gradients, in training, when the pass has ended.")
    ]
    activations_bytes: Annotated[
        Amount, Meaning("Bytes of all else that is alive when most is: what operations compute and keep.")
    ]
    cache_bytes: Annotated[Amount, Meaning("Bytes of the cache before the pass and after it.")]
    torch_bytes: Annotated[Amount, Meaning("Bytes of torch itself, on a GPU of what is beyond the model.")]
    needed_bytes: Annotated[Amount, Meaning("Bytes of all of these.")]


class GpuReading(Record):
    """Readings of a GPU at one moment; those that the card and its driver give."""

    sm_clock_mhz: NotRequired[Annotated[float, Meaning("Clock of its multiprocessors, MHz.")]]
    memory_clock_mhz: NotRequired[Annotated[float, Meaning("Clock of its memory, MHz.")]]
    power_w: NotRequired[Annotated[float, Meaning("Power it draws, W.")]]
    temperature_c: NotRequired[Annotated[float, Meaning("Its temperature, degrees Celsius.")]]
    slowed_by: NotRequired[
        Annotated[list[str], Meaning("What holds its clock down; being idle is none of them.")]
    ]


Machine = dict[str, str | int | list[GpuReading]]
"""The machine of a run: device, processor, threads, torch, math library, allocator.

`states` are readings of a GPU, in the order of time.
"""


class DisturbanceFigures(Record):
    """Disturbances of the plain passes: other processes, and a scatter of their times."""

    processors: Annotated[Amount, Meaning("Processors that the process could use.")]
    others: Annotated[
        float | None,
        Meaning("Processors that other processes kept busy, on average; null where the system does not say."),
    ]
    stolen: Annotated[
        float | None,
        Meaning("Processors that the host of a virtual machine took, on average; null as above."),
    ]
    waited_share: Annotated[
        float | None,
        Meaning("Of the time in which threads ran or were ready to, the share they waited; null as above."),
    ]
    spread: Annotated[
        float, Meaning("The interquartile range of the plain passes as a multiple of their median.")
    ]


class IdleTimes(Record):
    """Why a GPU was idle in a traced pass, in seconds."""

    launch: Annotated[Seconds, Meaning("Seconds it waited for the CPU to launch something.")]
    sync: Annotated[Seconds, Meaning("Seconds the CPU stood waiting for it while it had nothing to do.")]
    copy: Annotated[Seconds, Meaning("Seconds in which it only copied from or to memory elsewhere.")]
    ends: Annotated[Seconds, Meaning("Seconds before its first and after its last activity.")]


class Device(Record):
    """What a GPU did: medians over the traced passes, of which busy and idle add up to the wall."""

    busy_s: Annotated[Seconds, Meaning("Seconds in which it computed.")]
    idle_s: Annotated[IdleTimes, Meaning("Seconds in which it did not, by reason.")]
    wall_s: Annotated[Seconds, Meaning("Seconds of the traced pass.")]
    busy_share: Annotated[float, Meaning("Busy, of the traced pass; 1 is all.")]
    busy_share_of_plain: Annotated[float, Meaning("Busy, of the plain wall time; 1 is all.")]
    kernels: Annotated[Amount, Meaning("Kernels, copies and fills.")]
    launches: Annotated[Amount, Meaning("Calls that launched them.")]
    waits: Annotated[Amount, Meaning("Calls that wait for the device before the pass's last launch.")]
    plain_host_s: Annotated[list[Seconds], Meaning("Seconds of each plain pass by the CPU's clock.")]
    plain_device_s: Annotated[list[Seconds], Meaning("Seconds of each plain pass by the device's clock.")]


# by call, as the key `class` is a keyword of Python
ClassField = TypedDict(
    "ClassField",
    {"class": Annotated[str, Meaning("The class of operation; several, the slowest first, with + between.")]},
)


class Figures(Record):
    """Costs and time, their shares of the whole pass, rates, and the ceiling that limits them.

    Rates and roof are null where nothing was computed or no time taken. Where several processes measured it,
    also how the share of the time varies between them.
    """

    flops: Annotated[Amount, Meaning("FLOPs counted, exact for the mask; a multiply-add is 2.")]
    executed_flops: Annotated[Amount, Meaning("FLOPs that the kernels ran, masked scores included.")]
    bytes: Annotated[
        Amount,
        Meaning(
            "Bytes read and written by operations that run one by one; a fused kernel moves fewer. Of "
            "communication those that a rank sends over a ring."
        ),
    ]
    seconds: Annotated[
        float,
        Meaning(
            "Seconds of a pass; of what is unattributed perhaps below zero. Of what replicas exchange those "
            "in which the rank computed nothing."
        ),
    ]
    flop_share: Annotated[float, Meaning("Of the pass's counted FLOPs; 1 is all.")]
    byte_share: Annotated[float, Meaning("Of the pass's bytes; 1 is all.")]
    time_share: Annotated[float, Meaning("Of the plain wall time; 1 is all.")]
    busy_share: Annotated[
        float | None, Meaning("Of the time that a GPU was busy in a traced pass; null on a CPU.")
    ]
    gflops_per_s: Annotated[float | None, Meaning("1e9 executed FLOPs a second.")]
    gbytes_per_s: Annotated[
        float | None, Meaning("1e9 bytes a second; of what replicas exchange, a second under way.")
    ]
    intensity: Annotated[float | None, Meaning("Executed FLOPs a byte.")]
    roof: Annotated[
        Literal["compute", "memory", "cache"] | None,
        Meaning("Which of the machine's ceilings binds it; null without ceilings."),
    ]
    roof_share: Annotated[
        float | None,
        Meaning(
            "How much of that was reached; above 1 where counted bytes never moved, as in fused kernels."
        ),
    ]
    slowest_s: NotRequired[Annotated[float, Meaning("Seconds on the rank where it took longest.")]]
    time_share_range: NotRequired[
        Annotated[Range, Meaning("The least and the most of time_share between processes.")]
    ]
    time_share_sd: NotRequired[
        Annotated[
            float | None,
            Meaning("The standard deviation of time_share between processes; null of one alone."),
        ]
    ]


OperatorPath = Annotated[
    str,
    Meaning(
        "Where it stands in the model, * for the layer's index; of several that were fused, their "
        "common name."
    ),
]
FusedOperators = Annotated[
    list[str] | None,
    Meaning("Compiled: the operators that kernels of this line hold; null where none was compiled."),
]


class Operator(ClassField, Figures):
    """The figures of an operator of the architecture, layers folded."""

    path: OperatorPath
    operators: FusedOperators


class CompiledCode(Record):
    """The graphs and kernels that torch.compile made of the model, and the time it took."""

    graphs: Annotated[Amount, Meaning("Compiled graphs: forward, and in training backward.")]
    kernels: Annotated[Amount, Meaning("Kernels that a pass launches.")]
    library_kernels: Annotated[
        Amount, Meaning("Those of them that torch has ready, such as matrix products.")
    ]
    kernels_of_several_operators: Annotated[Amount, Meaning("Those that hold more than one operator.")]
    operators_sharing_a_result: Annotated[
        list[str], Meaning("Operators in no kernel, as an equal one's result was taken, by full path.")
    ]
    operators_in_no_kernel: Annotated[
        list[str], Meaning("Other operators that compute and are in no kernel: there should be none.")
    ]
    compile_s: Annotated[float, Meaning("Seconds that compiling took.")]


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


class RanksFigures(Record):
    """The ranks that measured a pass together; other figures are medians over them."""

    n: Annotated[Amount, Meaning("How many ranks, a process and a device each.")]
    tp: Annotated[Amount, Meaning("How many of them share each matrix.")]
    dp: Annotated[Amount, Meaning("How many replicas of the model they are.")]
    backend: Annotated[str, Meaning("What moved tensors between them: gloo, or nccl on GPUs.")]
    median: Annotated[Seconds, Meaning("Seconds: the median over ranks of wall_s.")]
    slowest: Annotated[Seconds, Meaning("Seconds: wall_s of the slowest rank.")]
    slowest_rank: Annotated[Amount, Meaning("Which one that is, from 0.")]
    walls_s: Annotated[list[Seconds], Meaning("Seconds: wall_s of every rank, in their order.")]
    matmul_flops: Annotated[Amount, Meaning("FLOPs of matrix products, counted, of all ranks together.")]
    other_flops: Annotated[
        Amount, Meaning("All other FLOPs, counted, of all ranks; what each of them has counts for each.")
    ]


class CollectiveFigures(Record):
    """A collective in a traced pass: what a rank sends by it, and how long it takes."""

    collective: Annotated[str, Meaning("all_reduce, all_gather or reduce_scatter.")]
    calls: Annotated[Amount, Meaning("Calls in a pass.")]
    bytes: Annotated[Amount, Meaning("Bytes that a rank sends in a pass, over a ring.")]
    time_s: Annotated[Seconds, Meaning("Seconds under way, waiting for other ranks included.")]
    exposed_s: Annotated[Seconds, Meaning("Seconds of these in which the rank computed nothing.")]
    slowest_s: Annotated[Seconds, Meaning("Seconds under way on the rank where that took longest.")]
    gbytes_per_s: Annotated[float | None, Meaning("1e9 bytes sent a second under way; null of none.")]
