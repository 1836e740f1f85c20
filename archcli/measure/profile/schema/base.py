"""Building blocks of the schema: records without further keys, described keys, and records used twice."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

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
"""What figures depend on besides the model: device, processor, CPU, threads, torch, math library, allocator.

`states` are readings of a GPU, in the order of time.
"""


class DisturbanceFigures(Record):
    """What disturbed the plain passes: other processes, and a scatter of their times."""

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
