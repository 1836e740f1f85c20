"""Settings of a profile, checks of a pass before torch is imported, and the machine's ceilings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.passes import Pass
from archcli.modules import Model
from archcli.modules.positions.position import learned_positions
from archcli.modules.spec.request import Request
from archcli.render.screen import Tick
from archcli.render.write import remember
from archcli.wings.running.api.profiling.rank import RankLaunch
from archcli.wings.running.profile.quality import is_disturbed
from archcli.wings.running.recording.disturbance import ProcessorTimes, disturbance, processor_times
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.devices.ceilings import SEPARATOR, CeilingsKey, ceilings_file, kept_ceilings
from archcli.wings.serving.memory.beyond.timed_run import compiled_memory, require_memory, run_memory
from archcli.wings.serving.recorded.machine import Ceilings, available_memory, cache_size, processor

if TYPE_CHECKING:
    from archcli.wings.running.runtime.profile.work import BuildSettings

RunDtype = Literal["fp32", "bf16", "fp16"]
REPORTED = {"dtype", "device", "hide_launch", "attention", "compile", "threads", "pairs"}
"""Settings that a report has among its inputs."""


class Detail(NamedTuple):
    """How many steps of a path a report shows, and how many operators; 0 shows all."""

    depth: int
    top: int


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How passes are run and timed, by the names of the options.

    threads, pairs: None for the usual number. ceilings, refresh: whether to measure the machine's, and anew.
    trace: whether to keep a trace. launch: the ranks, of which this process is one.

    Raises ArchError where launches are to be hidden on a CPU, which has none.
    """

    dtype: str
    device: str
    attention: str
    threads: int | None
    pairs: int | None
    ceilings: bool
    refresh: bool
    trace: bool
    hide_launch: bool = False
    compile: bool = False
    launch: RankLaunch | None = None

    def __post_init__(self) -> None:
        if self.hide_launch and self.device == "cpu":
            raise ArchError(
                "--hide-launch is for a GPU, to which kernels are launched; a CPU runs them itself",
                "--device cuda, or leave it out",
            )

    def inputs(self) -> dict[str, Any]:
        """The settings that a report has among its inputs."""
        return {key: value for key, value in asdict(self).items() if key in REPORTED}

    def build(self, distinct_experts: int | None = None) -> BuildSettings:
        """The runtime's settings for a model. Imports torch."""
        from archcli.wings.running.runtime.profile.work import BuildSettings

        return BuildSettings(self.dtype, self.device, self.attention, distinct_experts)


USUAL_CACHE = 64 << 20
"""Bytes of cache to reckon with where the machine does not say."""


def check_pass(name: str, model: Model, counted: Pass, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs. Raises ArchError where it lacks positions or, on a CPU, memory."""
    check_positions(counted)
    memory = needed_memory(model, counted, settings)
    check_memory(name, memory, settings)
    return memory


def check_memory(name: str, memory: dict[str, int], settings: RunSettings) -> None:
    """Raise ArchError where a CPU lacks memory; that of a GPU is known only with torch."""
    if settings.device == "cpu":
        require_memory(name, memory, available_memory(), settings.dtype)


def needed_memory(model: Model, counted: Pass, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs with these settings."""
    memory = pass_memory(model, counted.request, settings)
    return compiled_memory(memory, counted, settings.dtype) if settings.compile else memory


def pass_memory(model: Model, request: Request, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs without torch.compile."""
    backend: Backend = "cpu" if settings.device == "cpu" else "cuda"
    return run_memory(model, request, settings.dtype, settings.attention, backend)


def lacks_memory(memory: dict[str, int], settings: RunSettings) -> bool:
    """Whether a device is known to have less memory than a pass needs."""
    room = available(settings)
    return room is not None and memory["needed_bytes"] > room


def available(settings: RunSettings) -> int | None:
    """Free bytes of the device, None if unknown. Imports torch for any device but the CPU."""
    if settings.device == "cpu":
        return available_memory()
    from archcli.wings.running.runtime.profile import work

    work.check_device(settings.device)
    return work.free_memory(settings.device)


def cache_bytes(settings: RunSettings) -> int:
    """Bytes of the device's last-level caches. Imports torch for any device but the CPU."""
    if settings.device == "cpu":
        return cache_size() or USUAL_CACHE
    from archcli.wings.running.runtime.profile import ceilings

    return ceilings.l2_bytes(settings.device)


def check_positions(counted: Pass) -> None:
    """Raise ArchError where a learned table has fewer positions than there are tokens."""
    for row, positions in learned_positions(counted.rows):
        # an encoder runs only where nothing is cached, so that its first position is 0 too
        tokens = row.inputs[0][0] + counted.past
        if positions < tokens:
            raise ArchError(
                f"{row.path} has {positions} positions, and {tokens} tokens are asked for",
                "lower --seq-len, --past or --source-len",
            )


def check_shares(model: Model, request: Request) -> None:
    """Raise ArchError where an adaptive head's shares of the targets are no whole tokens."""
    tokens, multiple = request.batch_size * request.seq_len, model.token_multiple
    if request.phase == "train" and tokens % multiple:
        raise ArchError(
            f"the cluster_shares of {tokens} tokens are no whole numbers",
            f"--batch-size times --seq-len a multiple of {multiple}",
        )


def machine_ceilings(recording: Recording, settings: RunSettings, tick: Tick) -> Ceilings | None:
    """The ceilings for this dtype and number of threads; None where not asked for, or interrupted."""
    if not settings.ceilings or recording.partial:
        return None
    file, key = ceilings_file(), _key(recording, settings)
    kept = kept_ceilings(file)
    if key in kept and not settings.refresh:
        return kept[key]
    from archcli.wings.running.runtime.dtypes import DTYPES
    from archcli.wings.running.runtime.profile.ceilings import measure_ceilings

    tick("measuring what this machine can do", 0, 1)
    before = processor_times()
    ceilings = measure_ceilings(settings.dtype, DTYPES[settings.dtype], settings.device)
    if not is_disturbed(recording) and not is_disturbed(_with_disturbance_since(recording, before)):
        remember(file, kept | {key: ceilings})  # those of a disturbed machine are too low
    return ceilings


def _with_disturbance_since(recording: Recording, before: ProcessorTimes) -> Recording:
    """The recording with the disturbance since `before` in place of that of its passes."""
    times, processors = processor_times().since(before), recording.disturbance.processors
    return replace(recording, disturbance=disturbance([times], [times.wall_s], processors))


def _key(recording: Recording, settings: RunSettings) -> str:
    machine = recording.machine
    versions = [machine["torch"], *(machine[name] for name in ("CUDA", "fp32 products") if name in machine)]
    computes, threads = str(machine["processor"]), str(machine["threads"])
    on_cpu, of = processor(), SEPARATOR.join(map(str, versions))
    return CeilingsKey(on_cpu, computes, threads, settings.dtype, settings.device, of).text
