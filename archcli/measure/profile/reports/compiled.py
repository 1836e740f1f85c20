"""Figures and notes of a compiled model: its kernels, and the operators fused into each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.passes import Pass
from archcli.measure.profile.charges import is_expert_product
from archcli.measure.profile.operators import members, operator_name
from archcli.measure.profile.schema.figures import CompiledCode
from archcli.measure.report import Unit
from archcli.modules.models.layers import folded_path
from archcli.recording.classes import FUSED_KERNELS
from archcli.recording.kernels import CompiledModel
from archcli.recording.operations import JOIN
from archcli.recording.recording import Recording


def compiled_figures(compiled: CompiledModel | None) -> CompiledCode | None:
    """The figures of the compiled code; None for a model run without torch.compile."""
    return None if compiled is None else _figures(compiled)


def _figures(compiled: CompiledModel) -> CompiledCode:
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


def kernel_facts(recording: Recording) -> Iterator[tuple[str, Any, Unit]]:
    """Lines of the quality table: is the trace complete, and what was compiled."""
    seen = f"{recording.counted} of {recording.executed}"
    compiled = recording.compiled
    if compiled is None:
        yield "operations in the trace as in the census", seen, "text"
        return
    figures = _figures(compiled)
    kernels, library = figures["kernels"], figures["library_kernels"]
    made = f"{figures['graphs']}; {kernels - library}, {library}"
    several = f"{figures['kernels_of_several_operators']} of {kernels}"
    yield "kernels in the trace as compiled", seen, "text"
    yield "graphs; kernels made for them, kernels of torch's", made, "text"
    yield "kernels that hold several operators", several, "text"
    yield "operators that compute, in no kernel", _without_kernel(compiled), "text"
    yield "compiling", compiled.seconds, "seconds"


def _without_kernel(compiled: CompiledModel) -> str:
    shared = f"{len(compiled.shared)}, whose result an equal one has made" if compiled.shared else ""
    return ", ".join(filter(None, (shared, *compiled.missing))) or "0"


def group_members(recording: Recording, depth: int) -> dict[str, list[str]]:
    """The operators of each line of a compiled model, by the line's name."""
    if recording.compiled is None:
        return {}
    paths = (timed.path for timed in recording.timed if timed.path)
    return {operator_name(path, depth): members(path, depth) for path in paths}


def compiled_notes(counted: Pass, recording: Recording) -> Iterator[str]:
    """How to read the figures of a compiled model."""
    if recording.compiled is None:
        return
    yield (
        "Compiled: a line of several operators is of kernels into which they were fused, whose time is not "
        "split; FLOPs and bytes of an operator stand with the kernel that is first to run it, and once, "
        "though another may compute it again."
    )
    if any(timed.op_class == FUSED_KERNELS for timed in recording.timed):
        yield "Kernels into which operators of several classes were fused are a class of their own."
    if counted.phase == "train":
        yield "Sums of gradients that meet are fused into the kernels beside them."
    experts = sorted({folded_path(row.path) for row in counted.rows if is_expert_product(row)})
    if experts:
        yield (
            f"Compiled, every token reads its expert's matrices anew: {experts[0]} and its like move more "
            "bytes than are counted."
        )
