"""The document of `archcli profile pkg.module:name --json`: the time of a module of one's own."""

from __future__ import annotations

from typing import Annotated, Literal

from archcli.measure.profile.schema.records import Amount, Record, Seconds
from archcli.modules.spec.values import Meaning


class ProfiledModule(Record):
    """The module."""

    name: Annotated[str, Meaning("Its class.")]
    source: Annotated[str, Meaning("pkg.module:name, or in Python where its class is defined.")]


class ModuleInputs(Record):
    """How the module was run."""

    phase: Annotated[Literal["forward", "train"], Meaning("forward, or train with its backward.")]
    run_on: Annotated[Literal["cpu"], Meaning("The device.")]
    input: Annotated[list[str], Meaning("The tensors that it was given, as ids=int64[1,2048].")]


class ModuleTotals(Record):
    """The pass as a whole."""

    wall_s: Annotated[Seconds, Meaning("Seconds: the median plain pass.")]
    passes: Annotated[Amount, Meaning("Plain passes, and as many timed ones, in turn.")]
    attributed_share: Annotated[float, Meaning("Of the wall time, taken by operations.")]
    matmul_flops: Annotated[Amount, Meaning("FLOPs of matrix products that known masks allow.")]
    executed_flops: Annotated[Amount, Meaning("FLOPs of matrix products that the kernels ran.")]
    flops_per_s: Annotated[float, Meaning("executed_flops per second of wall_s.")]
    by_class: Annotated[
        dict[str, float], Meaning("Shares by class of operation, and of the framework; they add up to 1.")
    ]


class ModuleTime(Record):
    """The own operations of a module, or of equal ones together."""

    path: Annotated[str, Meaning("Where it is, layers.* for all of a list; empty for the whole.")]
    op: Annotated[str, Meaning("Its class.")]
    group: Annotated[str, Meaning("attention, ffn, norms and others, by class and place.")]
    times: Annotated[Amount, Meaning("Calls in a pass, of all together.")]
    seconds: Annotated[Seconds, Meaning("Seconds of both stages.")]
    forward_s: Annotated[Seconds, Meaning("Seconds of the forward.")]
    backward_s: Annotated[Seconds, Meaning("Seconds of the backward.")]
    share: Annotated[float, Meaning("Of the seconds of all rows.")]
    flops: Annotated[Amount, Meaning("FLOPs of matrix products that known masks allow.")]
    executed_flops: Annotated[Amount, Meaning("FLOPs of matrix products that the kernels ran.")]


class ModuleProfile(Record):
    """What `archcli profile pkg.module:name --json` prints."""

    schema_version: Annotated[Literal[1], Meaning("The form of the document.")]
    command: Annotated[Literal["profile"], Meaning("What printed it.")]
    model: Annotated[ProfiledModule, Meaning("The module.")]
    inputs: Annotated[ModuleInputs, Meaning("How it was run.")]
    convention: Annotated[str, Meaning("How seconds and FLOPs are counted.")]
    totals: Annotated[ModuleTotals, Meaning("The pass as a whole, and by class of operation.")]
    rows: Annotated[list[ModuleTime], Meaning("Every module, the slowest first.")]
    notes: Annotated[list[str], Meaning("What must be known to read it, one sentence each.")]
