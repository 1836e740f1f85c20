"""The documents of `archcli profile -- python train.py`, and of a module of the user's own."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from archcli.modules.spec.values import Length, Meaning
from archcli.wings.serving.recorded.machine import Ceilings
from archcli.wings.serving.recorded.schema.records import (
    Amount,
    ClassField,
    DisturbanceFigures,
    Machine,
    Record,
    Seconds,
)

Shares = dict[str, float]
"""Parts of a step's wall time; they add up to 1."""
Pair = Annotated[list[Amount], Length(2, 2)]


class ProgramName(Record):
    """The program that was watched."""

    name: Annotated[str, Meaning("Its command line, long words cut.")]
    source: Annotated[Literal["a program"], Meaning("What kind of thing was profiled.")]


class ProgramInputs(Record):
    """How the program was watched."""

    program: Annotated[list[str], Meaning("The words behind `--`.")]
    step_on: Annotated[
        Literal["optimizer", "forward"],
        Meaning("What ends a step: the optimizer's step, or a pass of the outermost module."),
    ]
    warm_up: Annotated[Amount, Meaning("Steps left out at first.")]
    steps: Annotated[Amount, Meaning("Steps to trace, each beside a plain one, as asked.")]
    stop: Annotated[bool, Meaning("Whether the program was ended after these steps.")]
    against_prediction: Annotated[
        str | None, Meaning("The architecture that was predicted beside it; null for none.")
    ]
    device: Annotated[str | None, Meaning("What it was predicted for; null is this machine.")]
    batch_size: Annotated[Amount | None, Meaning("Sequences predicted; null is as the program has them.")]
    seq_len: Annotated[Amount | None, Meaning("Tokens predicted in each; null is as the program has them.")]


class ProgramFinding(Record):
    """Something unusual in a step, and what to try."""

    what: Annotated[str, Meaning("What is unusual, in words that follow the figure.")]
    figure: Annotated[float, Meaning("The share of a step that it takes.")]
    attempt: Annotated[str, Meaning("What to try.")]


class PredictedInputs(Record):
    """What a step of an architecture was predicted for."""

    phase: Annotated[str, Meaning("train or forward.")]
    batch_size: Annotated[Amount, Meaning("Sequences side by side.")]
    seq_len: Annotated[Amount, Meaning("Tokens in each.")]
    dtype: Annotated[str, Meaning("In which numbers.")]


class ClassTime(ClassField, Record):
    """A class's time in a step, measured and predicted."""

    measured_s: Annotated[Seconds, Meaning("Seconds in a step of the program.")]
    predicted_s: Annotated[
        Seconds | None, Meaning("Seconds predicted; null for a class without a prediction.")
    ]
    measured_over_predicted: Annotated[float | None, Meaning("Their ratio; null without a prediction.")]


class ProgramPrediction(Record):
    """A step of the program beside the prediction of an architecture."""

    model: Annotated[str, Meaning("The architecture.")]
    device: Annotated[str, Meaning("The device it was predicted for.")]
    is_limit: Annotated[bool, Meaning("Whether predicted by peaks alone, which no program reaches.")]
    measured_s: Annotated[Seconds, Meaning("Seconds of a plain step of the program, the median.")]
    predicted_s: Annotated[Seconds, Meaning("Seconds predicted: those expected, or the floor.")]
    time_s: Annotated[
        dict[str, Seconds | None],
        Meaning("Seconds predicted: floor, expected, low and high; null where not calibrated."),
    ]
    measured_over_predicted: Annotated[float | None, Meaning("Their ratio.")]
    inputs: Annotated[PredictedInputs, Meaning("What was predicted.")]
    by_class: Annotated[list[ClassTime], Meaning("By class of operation, the slowest measured first.")]


class ProgramRow(ClassField, Record):
    """The kernels of one class that a module runs in one phase, repeated modules folded."""

    path: Annotated[str, Meaning("The module, `*` for repeated ones; places in parentheses are no modules.")]
    module: Annotated[str | None, Meaning("Its class; null for a place, or for modules of several classes.")]
    phase: Annotated[str, Meaning("forward, backward, optimizer or outside.")]
    share: Annotated[float, Meaning("Of a step.")]
    seconds: Annotated[Seconds, Meaning("Seconds in a traced step, on average.")]
    calls: Annotated[float, Meaning("Kernels in a step, on average.")]
    flops: Annotated[Amount | None, Meaning("FLOPs of products in a step; null where none were counted.")]
    gflops_per_s: Annotated[float | None, Meaning("Billions of these a second; null without them.")]
    operations: Annotated[list[str], Meaning("Torch's operations that took most of it, at most three.")]


class StepFigures(Record):
    """What was measured and counted of a step of the program. Shares are of the traced steps."""

    steps: Annotated[Amount, Meaning("Steps of the whole program.")]
    steps_watched: Annotated[Amount, Meaning("Steps that were traced.")]
    step_s: Annotated[Seconds, Meaning("Seconds: the median plain step.")]
    attributed_share: Annotated[float, Meaning("Of the kernels' time, that with a known place.")]
    outside_share: Annotated[
        float, Meaning("Of a step, in kernels outside of modules, optimizer and loader; backward included.")
    ]
    kernel_share: Annotated[float, Meaning("Of a step, in kernels.")]
    framework_share: Annotated[float, Meaning("Of a step, between kernels: Python, dispatch, launches.")]
    waiting_share: Annotated[float, Meaning("Of a step, in the data loader beside its kernels.")]
    mfu: Annotated[
        float | None,
        Meaning("FLOPs of products by step_s and the machine's fastest product; null without both."),
    ]
    by_class: Annotated[Shares, Meaning("By class of operation; with framework and waiting they make 1.")]
    by_phase: Annotated[
        Shares, Meaning("By forward, backward, optimizer and outside; with the rest in parentheses 1.")
    ]
    by_path: Annotated[Shares, Meaning("By module; places in parentheses are no modules. They make 1.")]
    matmul_flops: Annotated[Amount | None, Meaning("FLOPs of products in a step; null where not counted.")]
    other_flops: Annotated[Amount | None, Meaning("All other FLOPs; null where not counted.")]
    matmul_dtype: Annotated[str | None, Meaning("In which numbers most products are; null without any.")]
    uncounted: Annotated[list[str], Meaning("Products without a formula, by torch's name.")]
    flops_per_s: Annotated[float | None, Meaning("FLOPs of products by step_s; null where not counted.")]
    ceilings: Annotated[
        Ceilings | None,
        Meaning("What the machine can do at best in matmul_dtype; null where not measured."),
    ]
    bf16_flops_per_s: Annotated[
        float | None,
        Meaning("FLOPs a second of its fastest product in bf16; null where that would not matter."),
    ]
    kernels_per_step: Annotated[float, Meaning("Kernels in a step, on average.")]
    overhead_ratio: Annotated[
        float | None,
        Meaning("A traced step as a multiple of the plain one before it, the median; null without pairs."),
    ]
    tokens: Annotated[
        Pair | None,
        Meaning("Sequences of a batch and tokens of each, as first embedded; null where none were."),
    ]
    optimizers: Annotated[list[str], Meaning("Classes of the optimizers that stepped.")]
    compiled_graphs: Annotated[Amount, Meaning("Graphs of torch.compile, forward and backward.")]
    plain_s: Annotated[list[Seconds], Meaning("Seconds of every plain step.")]
    traced_s: Annotated[list[Seconds], Meaning("Seconds of the traced step after each.")]
    device: Annotated[str, Meaning("cpu or cuda.")]
    machine: Annotated[Machine, Meaning("What the figures depend on besides the program.")]
    disturbance: Annotated[DisturbanceFigures, Meaning("What disturbed the plain steps.")]
    advice: Annotated[list[ProgramFinding], Meaning("What is unusual, the largest share first.")]


class ProgramTotals(StepFigures):
    """A step of the program, and what was predicted."""

    prediction: NotRequired[
        Annotated[ProgramPrediction, Meaning("With --against-prediction, where it could be made.")]
    ]


class ProgramProfile(Record):
    """What `archcli profile -o FILE.json -- PROGRAM` writes."""

    schema_version: Annotated[Literal[1], Meaning("The form of the document.")]
    command: Annotated[Literal["profile"], Meaning("What wrote it.")]
    model: Annotated[ProgramName, Meaning("The program.")]
    inputs: Annotated[ProgramInputs, Meaning("How it was watched.")]
    convention: Annotated[str, Meaning("How kernels, FLOPs and shares are counted.")]
    totals: Annotated[ProgramTotals, Meaning("A step as a whole.")]
    rows: Annotated[list[ProgramRow], Meaning("Modules by phase and class, the slowest first.")]
    notes: Annotated[list[str], Meaning("What must be known to read it, one sentence each.")]


class ProfiledModule(Record):
    """The module that was profiled."""

    name: Annotated[str, Meaning("Its class.")]
    source: Annotated[str, Meaning("Where it came from: pkg.module:function.")]


class ModuleInputs(Record):
    """How the module was run."""

    phase: Annotated[str, Meaning("forward or train.")]
    device: Annotated[str, Meaning("What it ran on.")]
    input: Annotated[list[str], Meaning("Its inputs, as name=dtype[shape].")]


class ModuleTotals(Record):
    """A pass of the module."""

    wall_s: Annotated[Seconds, Meaning("Seconds: the median plain pass.")]
    passes: Annotated[Amount, Meaning("Plain passes, and as many timed ones.")]
    attributed_share: Annotated[float, Meaning("Of the wall time, in operations of torch.")]
    matmul_flops: Annotated[Amount, Meaning("FLOPs of matrix products.")]
    flops_per_s: Annotated[float, Meaning("These by wall_s.")]
    by_class: Annotated[Shares, Meaning("By class of operation, and framework for the rest; they make 1.")]


class ModuleRow(Record):
    """A module within it, repeated ones folded."""

    path: Annotated[str, Meaning("Its path; starred or numbered where folded.")]
    op: Annotated[str, Meaning("Its class.")]
    group: Annotated[str, Meaning("What part of a model it is.")]
    times: Annotated[Amount, Meaning("How many modules are folded in it.")]
    seconds: Annotated[Seconds, Meaning("Seconds of all of them in a pass.")]
    forward_s: Annotated[Seconds, Meaning("Of these, forward.")]
    backward_s: Annotated[Seconds, Meaning("Of these, backward.")]
    share: Annotated[float, Meaning("Of the time of all modules.")]
    flops: Annotated[Amount, Meaning("FLOPs of its matrix products.")]


class ModuleProfile(Record):
    """What `archcli profile pkg.module:function --json` prints."""

    schema_version: Annotated[Literal[1], Meaning("The form of the document.")]
    command: Annotated[Literal["profile"], Meaning("What printed it.")]
    model: Annotated[ProfiledModule, Meaning("The module.")]
    inputs: Annotated[ModuleInputs, Meaning("How it was run.")]
    convention: Annotated[str, Meaning("How times and FLOPs are counted.")]
    totals: Annotated[ModuleTotals, Meaning("A pass as a whole.")]
    rows: Annotated[list[ModuleRow], Meaning("Every module, the slowest first.")]
    notes: Annotated[list[str], Meaning("What must be known to read it, one sentence each.")]
