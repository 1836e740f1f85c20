"""Two sections of a profile's report: the compiled code, and the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.errors import install
from archcli.measure.passes import Pass
from archcli.measure.report import Fact
from archcli.modules.models.layers import folded_path
from archcli.units import three_figures
from archcli.wings.running.profile.charges import is_expert_product
from archcli.wings.running.recording.kernels import CompiledModel
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import FUSED_KERNELS, label_of
from archcli.wings.serving.recorded.operations import JOIN
from archcli.wings.serving.recorded.operators import members, operator_name

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.records import CompiledCode, Device


class Section(NamedTuple):
    """A section of a report: its record for the JSON, its lines of the quality table, its notes."""

    figures: Any
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()


def compiled_section(counted: Pass, recording: Recording) -> Section:
    """The kernels of torch.compile, and whether the trace is complete."""
    seen, compiled = f"{recording.counted} of {recording.executed}", recording.compiled
    if compiled is None:
        return Section(None, (("operations in the trace as in the census", seen, "text"),))
    kernels = len(compiled.kernels)
    library = sum(kernel.library for kernel in compiled.kernels)
    several = sum(JOIN in kernel.key.path for kernel in compiled.kernels)
    figures: CompiledCode = {
        "graphs": len(compiled.graphs),
        "kernels": kernels,
        "library_kernels": library,
        "kernels_of_several_operators": several,
        "operators_sharing_a_result": list(compiled.shared),
        "operators_in_no_kernel": list(compiled.missing),
        "compile_s": compiled.seconds,
    }
    graphs_and_kernels = f"{figures['graphs']}; {kernels - library}, {library}"
    facts: tuple[Fact, ...] = (
        ("kernels in the trace as compiled", seen, "text"),
        ("graphs; kernels made for them, kernels of torch's", graphs_and_kernels, "text"),
        ("kernels that hold several operators", f"{several} of {kernels}", "text"),
        ("operators that compute, in no kernel", _without_kernel(compiled), "text"),
        ("compiling", compiled.seconds, "seconds"),
    )
    return Section(figures, facts, tuple(_on_compiled(counted, recording)))


def _without_kernel(compiled: CompiledModel) -> str:
    shared = f"{len(compiled.shared)}, whose result an equal one has made" if compiled.shared else ""
    return ", ".join(filter(None, (shared, *compiled.missing))) or "0"


def group_members(recording: Recording, depth: int) -> dict[str, list[str]]:
    """The operators of each line of a compiled model, by the line's name."""
    if recording.compiled is None:
        return {}
    # no path: torch operations outside of any row
    paths = (timed.path for timed in recording.timed if timed.path)
    return {operator_name(path, depth): members(path, depth) for path in paths}


def _on_compiled(counted: Pass, recording: Recording) -> Iterator[str]:
    """Notes on the figures of a compiled model."""
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


READINGS: Mapping[str, tuple[str, str]] = {
    "sm_clock_mhz": ("SM clock", "MHz"),
    "memory_clock_mhz": ("memory clock", "MHz"),
    "power_w": ("power", "W"),
    "temperature_c": ("temperature", "degrees C"),
}
"""Names and units of the GPU's sensors, by JSON key."""


def is_gpu(machine: Mapping[str, Any]) -> bool:
    """Whether a pass ran on a GPU, by the settings of its machine."""
    return str(machine["device"]).startswith("cuda")


def device_section(recording: Recording, wall_s: float) -> Section:
    """Busy and idle times of a GPU in a traced pass; `wall_s` is that of a plain pass."""
    figures = _device_figures(recording, wall_s)
    return Section(figures, tuple(_device_facts(figures, recording)), tuple(_on_device(recording)))


def _device_figures(recording: Recording, wall_s: float) -> Device | None:
    """Device activity: medians over traced passes; busy and idle times add up to `wall_s`.

    busy_share: of the traced pass; busy_share_of_plain: of the plain wall time.
    plain_host_s, plain_device_s: plain passes by the clock of the CPU and of the GPU.
    None on a CPU.
    """
    gpu, device = recording.gpu, recording.on_device
    if gpu is None or device is None:
        return None
    return {
        "busy_s": device.busy_ns / 1e9,
        "idle_s": {
            "launch": device.launch_ns / 1e9,
            "sync": device.sync_ns / 1e9,
            "copy": device.copy_ns / 1e9,
            "ends": device.ends_ns / 1e9,
        },
        "wall_s": device.wall_ns / 1e9,
        "busy_share": device.busy_ns / device.wall_ns if device.wall_ns else 0.0,
        "busy_share_of_plain": device.busy_ns / 1e9 / wall_s,
        "kernels": device.activities,
        "launches": device.launches,
        "waits": device.waits,
        "plain_host_s": list(gpu.host_s),
        "plain_device_s": list(gpu.device_s),
    }


def machine_figures(recording: Recording) -> dict[str, Any]:
    """Machine settings, and readings of the GPU before and after the timed passes."""
    states = () if recording.gpu is None else recording.gpu.states
    return {**recording.machine, **({"states": list(states)} if states else {})}


def _device_facts(figures: Device | None, recording: Recording) -> Iterator[Fact]:
    """Facts on the device, and its sensors before and after."""
    if figures is not None:
        idle, traced = figures["idle_s"], figures["wall_s"] or 1.0
        yield "device busy / plain wall", figures["busy_share_of_plain"], "share"
        yield "device busy, of a traced pass", figures["busy_share"], "share"
        yield "device idle, waiting for launches", idle["launch"] / traced, "share"
        yield "device idle, the CPU waiting for it", idle["sync"] / traced, "share"
        yield "device only copying from or to elsewhere", idle["copy"] / traced, "share"
        yield "device before its first and after its last kernel", idle["ends"] / traced, "share"
        yield "kernels, copies and fills; launches", f"{figures['kernels']}; {figures['launches']}", "text"
    states = () if recording.gpu is None else recording.gpu.states
    if len(states) > 1:
        before, after = states[0], states[-1]
        for key, (name, unit) in READINGS.items():
            if key in before and key in after:
                yield f"{name}, before and after", f"{before[key]:.0f}, {after[key]:.0f} {unit}", "text"


def _on_device(recording: Recording) -> Iterator[str]:
    """Notes on the figures of a GPU."""
    if not is_gpu(recording.machine):
        return
    yield "Not measured on a GPU yet: this way of timing kernels was tried on recorded events only."
    yield (
        "An operation's time is that of the kernels it launched, each in full where several run at once; "
        "the framework is what is left of the pass, the device idle above all."
    )
    if recording.gpu is not None and recording.gpu.hidden:
        yield (
            "Launches are hidden: a kernel that waits is ahead of each pass, "
            "and the plain wall is the device's time from there."
        )
    if recording.gpu is None or not recording.gpu.states:
        hint = install("nvidia-ml-py")
        yield f"Clock, power and temperature of the card were not read; to read them {hint}"


def where_the_time_goes(totals: Mapping[str, Any], what: str = "a pass") -> str:
    """`12.3 ms a pass; matrix products 71.3% of the time`, and whether that is reliable."""
    shares = {name: figures["time_share"] or 0.0 for name, figures in totals["by_class"].items()}
    sentence = time_in_words(totals["wall_s"], what, shares)
    return sentence if totals["reliable"] else f"{sentence}; NOT RELIABLE, see the notes"


def time_in_words(seconds: float, what: str, shares: Mapping[str, float]) -> str:
    """`12.3 ms a pass; matrix products 71.3% of the time`."""
    slowest = max(shares, key=lambda name: shares[name])
    return f"{three_figures(seconds * 1e3)} ms {what}; {label_of(slowest)} {shares[slowest]:.1%} of the time"
