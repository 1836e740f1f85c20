"""The recording of a watched program, as plain data: steps, kernels by place, FLOPs. No torch.

A place is a path of the program's own modules, `transformer.h.0.attn`, or one of those in parentheses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from archcli.wings.running.recording.device import DeviceActivity
from archcli.wings.running.recording.disturbance import Disturbance
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import label_of
from archcli.wings.serving.recorded.operations import OpKey

OUTSIDE = "(outside of modules)"
"""Functions that the program calls itself: a loss, clipping of gradients, a transfer to the device."""
OPTIMIZER = "(optimizer)"
LOADER = "(data loader)"
UNPLACED = "(unplaced)"
"""Kernels of a backward whose forward was not watched."""
WAITING = "waiting"
"""The class of time in the data loader beside its kernels: waiting for workers, reading, Python."""
PREFIX = "archcli:"
"""The start of a label in the trace of a step."""

StepOn = Literal["optimizer", "forward"]
"""What ends a step of a program: its optimizer's step, or a pass through its outermost module."""
ProgramPhase = Literal["forward", "backward", "optimizer", "outside"]


class PlacedTime(NamedTuple):
    """Time of torch operations of one name at one place, summed over the watched steps."""

    path: str
    phase: ProgramPhase
    name: str
    op_class: str
    seconds: float
    calls: int


class CountedStep(NamedTuple):
    """FLOPs of one step by (path, phase, class), of products by dtype, and what could not be counted."""

    matmul_flops: int = 0
    other_flops: int = 0
    by_place: Mapping[tuple[str, str, str], int] = {}
    by_dtype: Mapping[str, int] = {}
    uncounted: Mapping[str, int] = {}


class Watching(NamedTuple):
    """How a program is watched: steps left out at first, steps traced, what ends a step, and what follows."""

    warm_up: int = 2
    steps: int = 5
    step_on: StepOn = "optimizer"
    stop: bool = False


@dataclass(frozen=True, slots=True)
class ProgramRecording:
    """The measurements of a program's steps: plain and traced ones in turn.

    steps: those of the whole program. plain_s, traced_s: wall times of the steps that were timed.
    placed: kernels of the traced steps.
    waiting_s: time in the data loader beside kernels, of all traced steps.
    loads_itself: whether a data loader made batches in this process, without workers.
    modules: the class of each module by its path.
    counted: FLOPs of one step; None where none was counted.
    tokens: (batch, sequence) of the outermost module's first input of whole numbers.
    optimizers: classes of the optimizers that stepped.
    graphs: compiled graphs that were watched.
    device: what ran the kernels; activity: of a GPU in each traced step.
    failure: why watching ended early; empty where it did not.
    """

    steps: int = 0
    plain_s: tuple[float, ...] = ()
    traced_s: tuple[float, ...] = ()
    placed: tuple[PlacedTime, ...] = ()
    waiting_s: float = 0.0
    loads_itself: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)
    counted: CountedStep | None = None
    tokens: tuple[int, int] | None = None
    optimizers: tuple[str, ...] = ()
    graphs: int = 0
    device: str = "cpu"
    activity: DeviceActivity | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    disturbance: Disturbance = field(default_factory=Disturbance)
    complete: bool = False
    failure: str = ""

    def as_recording(self) -> Recording:
        """What the steps' times say, in the form of a pass's recording: for the machine's ceilings."""
        return Recording(
            (),
            (),
            self.plain_s,
            self.traced_s,
            0.0,
            0,
            0,
            (),
            0,
            0,
            0.0,
            dict(self.machine),
            disturbance=self.disturbance,
        )

    @property
    def traced_total_s(self) -> float:
        """Seconds of all traced steps."""
        return sum(self.traced_s)

    @property
    def kernels_s(self) -> float:
        """Seconds of all kernels of the traced steps."""
        return sum(time.seconds for time in self.placed)


def class_label(name: str) -> str:
    """The label of a class of a step's time in a table."""
    return "waiting for data" if name == WAITING else label_of(name)


def phase_of(key: OpKey) -> ProgramPhase:
    """The phase of a program that a key of the walk belongs to."""
    if key.path == OPTIMIZER:
        return "optimizer"
    if key.path in {"", LOADER}:
        return "outside"
    return "forward" if key.phase == "forward" else "backward"
