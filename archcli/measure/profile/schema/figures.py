"""The figures of a class of operation or of an operator."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from archcli.measure.profile.schema.base import Amount, Range, Record
from archcli.modules.spec.values import Meaning

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


class Operator(ClassField, Figures):
    """The figures of an operator of the architecture, layers folded."""

    path: Annotated[
        str,
        Meaning(
            "Where it stands in the model, * for the layer's index; of several that were fused, their "
            "common name."
        ),
    ]
    operators: Annotated[
        list[str] | None,
        Meaning("Compiled: the operators that kernels of this line hold; null where none was compiled."),
    ]


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
