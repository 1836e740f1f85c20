"""What the records of a profile's JSON have in common: no key that is not named, and words and units for every one that is."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic brings it, and takes no other below Python 3.12


class Record(TypedDict):
    """A JSON object that has the named keys and no others."""


Record.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]  # set from outside, or it would be taken for a key


def says(description: str) -> Any:
    """What a key means, and in which unit."""
    return Field(description=description)


Amount = Annotated[int, Field(ge=0)]
"""A whole number of something, exact."""
Seconds = Annotated[float, Field(ge=0)]
"""Of which there cannot be fewer than none; differences of times are plain numbers."""
Range = Annotated[list[float], Field(min_length=2, max_length=2)]
"""Least and most."""


class Model(Record):
    """The architecture."""

    name: Annotated[str, says("What it is called.")]
    source: Annotated[str, says("The file or preset it came from.")]


class Ran(Record):
    """How it was run, whatever was asked."""

    phase: Annotated[str, says("forward, train (forward and backward), prefill or decode.")]
    batch_size: Annotated[Amount, says("Sequences side by side.")]
    seq_len: Annotated[Amount, says("New tokens in each.")]
    past: Annotated[Amount, says("Tokens in the cache before the new ones.")]
    source_len: Annotated[
        Amount | None, says("Positions an encoder-decoder's encoder has; null for any other model.")
    ]
    dtype: Annotated[str, says("In which numbers it was run.")]
    device: Annotated[str, says("cpu, cuda or cuda:N.")]
    hide_launch: Annotated[bool, says("Whether launches were hidden behind a kernel that waits: of a GPU.")]
    attention: Annotated[
        str, says("sdpa: torch's fused kernel where it can; eager: products and softmax apart.")
    ]
    compile: Annotated[bool, says("Whether it was run under torch.compile.")]
    threads: Annotated[Amount | None, says("Threads within an operation, as asked; null is torch's choice.")]
    pairs: Annotated[
        Amount | None,
        says("Plain and traced passes, as asked; null is as many as the time allows, up to ten."),
    ]


class Memory(Record):
    """Memory a run needs, in bytes: estimated from the rows before anything is built."""

    weights_bytes: Annotated[Amount, says("Bytes of all weights.")]
    gradients_bytes: Annotated[Amount, says("Bytes of their gradients, in training.")]
    activations_bytes: Annotated[Amount, says("Bytes of what operations compute and hold, an estimate.")]
    cache_bytes: Annotated[Amount, says("Bytes of the cache before the pass and after it.")]
    torch_bytes: Annotated[Amount, says("Bytes of torch itself.")]
    needed_bytes: Annotated[Amount, says("Bytes of all of these.")]


class State(Record):
    """Readings of a GPU at one moment; those that the card and its driver give."""

    sm_clock_mhz: NotRequired[Annotated[float, says("Clock of its multiprocessors, MHz.")]]
    memory_clock_mhz: NotRequired[Annotated[float, says("Clock of its memory, MHz.")]]
    power_w: NotRequired[Annotated[float, says("Power it draws, W.")]]
    temperature_c: NotRequired[Annotated[float, says("Its temperature, degrees Celsius.")]]
    slowed_by: NotRequired[
        Annotated[list[str], says("What holds its clock down; being idle is none of them.")]
    ]


Machine = dict[str, str | int | list[State]]
"""What the figures depend on besides the model: device, processor, threads, torch, math library, allocator; `states` of a GPU by time."""


class Idle(Record):
    """Why a GPU was idle in a traced pass, in seconds."""

    launch: Annotated[Seconds, says("Seconds it waited for the CPU to launch something.")]
    sync: Annotated[Seconds, says("Seconds the CPU stood waiting for it while it had nothing to do.")]
    copy: Annotated[Seconds, says("Seconds in which it only copied from or to memory elsewhere.")]
    ends: Annotated[Seconds, says("Seconds before its first and after its last activity.")]


class Device(Record):
    """What a GPU did: medians over the traced passes, of which busy and idle add up to the wall."""

    busy_s: Annotated[Seconds, says("Seconds in which it computed.")]
    idle_s: Annotated[Idle, says("Seconds in which it did not, by reason.")]
    wall_s: Annotated[Seconds, says("Seconds of the traced pass.")]
    busy_share: Annotated[float, says("Busy, of the traced pass; 1 is all.")]
    busy_share_of_plain: Annotated[float, says("Busy, of the plain wall time; 1 is all.")]
    kernels: Annotated[Amount, says("Kernels, copies and fills.")]
    launches: Annotated[Amount, says("Calls that launched them.")]
    waits: Annotated[Amount, says("Calls that wait for the device before the pass's last launch.")]
    plain_host_s: Annotated[list[Seconds], says("Seconds of each plain pass by the CPU's clock.")]
    plain_device_s: Annotated[list[Seconds], says("Seconds of each plain pass by the device's clock.")]
