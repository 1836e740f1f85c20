"""What a report says of a compiled model besides: how many kernels there are, what they hold, how to read lines of several operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from archcli.arith import prod, to_bytes
from archcli.measure.passes import Pass, folded_path
from archcli.measure.profile.reports.groups import JOIN, label, members
from archcli.measure.profile.schema.figures import Compiled
from archcli.measure.report import Unit
from archcli.ops import Linear
from archcli.recording.classes import FUSED_KERNELS

if TYPE_CHECKING:
    from archcli.recording.kernels import CompiledModel
    from archcli.recording.recording import Recording

Fact = tuple[str, Any, Unit]
MOST_NAMES = 3
"""Operators of a group that a table names; JSON has all."""


def with_copies(memory: dict[str, int], counted: Pass, dtype: str) -> dict[str, int]:
    """The memory that the pass needs when it is compiled: in training, the gradient of an expert's matrix is first made for each token."""
    if counted.phase != "train":
        return memory
    copies = (prod(row.inputs[0][:-1]) * row.unit_params for row in counted.rows if row.experts is not None)
    more = int(to_bytes(max(copies, default=0), dtype))
    return memory | {key: memory[key] + more for key in ("gradients_bytes", "needed_bytes")}


def figures(compiled: CompiledModel | None) -> Compiled | None:
    """What JSON says of the compiled code; None of a model that runs operation by operation."""
    return None if compiled is None else _figures(compiled)


def _figures(compiled: CompiledModel) -> Compiled:
    kernels = compiled.kernels
    return {
        "graphs": len(compiled.graphs),
        "kernels": len(kernels),
        "library_kernels": sum(kernel.library for kernel in kernels),
        "kernels_of_several_operators": sum(JOIN in kernel.key.path for kernel in kernels),
        "operators_sharing_a_result": list(compiled.shared),
        "operators_in_no_kernel": list(compiled.missing),
        "compile_s": compiled.seconds,
    }


def counts(recording: Recording) -> tuple[Fact, ...]:
    """What was looked for in the trace, and was it there."""
    of = f"{recording.counted} of {recording.executed}"
    compiled = recording.compiled
    if compiled is None:
        return (("operations in the trace as in the census", of, "text"),)
    made = _figures(compiled)
    kernels, library = made["kernels"], made["library_kernels"]
    return (
        ("kernels in the trace as compiled", of, "text"),
        (
            "graphs; kernels made for them, kernels of torch's",
            f"{made['graphs']}; {kernels - library}, {library}",
            "text",
        ),
        (
            "kernels that hold several operators",
            f"{made['kernels_of_several_operators']} of {kernels}",
            "text",
        ),
        ("operators that compute, in no kernel", _lost(compiled), "text"),
        ("compiling", compiled.seconds, "seconds"),
    )


def _lost(compiled: CompiledModel) -> str:
    shared = f"{len(compiled.shared)}, whose result an equal one has made" if compiled.shared else ""
    return ", ".join(filter(None, (shared, *compiled.missing))) or "0"


def named(recording: Recording, depth: int) -> dict[str, list[str]]:
    """The operators of each line of a compiled model by its label."""
    if recording.compiled is None:
        return {}
    return {label(timed.path, depth): members(timed.path, depth) for timed in recording.timed if timed.path}


def short(path: str, operators: list[str] | None) -> str:
    """A group's name as a table shows it: that of its first operators, and of how many more."""
    if operators is None or len(operators) <= MOST_NAMES:
        return path
    return f"{label(JOIN.join(operators[:MOST_NAMES]))} + {len(operators) - MOST_NAMES} more"


def explained(counted: Pass, recording: Recording) -> Iterator[str]:
    """How to read it."""
    if recording.compiled is None:
        return
    yield (
        "Compiled: a line of several operators is of kernels into which they were fused, whose time is not split; FLOPs and bytes of an "
        "operator stand with the kernel that is first to run it, and once, though another may compute it again."
    )
    if any(timed.op_class == FUSED_KERNELS for timed in recording.timed):
        yield "Kernels into which operators of several classes were fused are a class of their own."
    if counted.phase == "train":
        yield "Sums of gradients that meet are fused into the kernels beside them."
    experts = sorted(
        {
            folded_path(row.path)
            for row in counted.rows
            if row.experts is not None and isinstance(row.op, Linear)
        }
    )
    if experts:
        yield f"Compiled, every token reads its expert's matrices anew: {experts[0]} and its like move more bytes than are counted."
