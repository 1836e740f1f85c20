"""Settings that only a profile needs, and checks of a pass before torch is imported."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archcli.api.profiling.rank import RankLaunch
from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.memory.timed_run import require_memory, run_memory
from archcli.measure.passes import Pass
from archcli.measure.profile.compiled_memory import compiled_memory
from archcli.modules import Model
from archcli.modules.positions.position import learned_positions
from archcli.modules.spec.request import Request
from archcli.recording.machine import available_memory, cache_size

if TYPE_CHECKING:
    from archcli.runtime.profile.work import BuildSettings

RunDtype = Literal["fp32", "bf16", "fp16"]
REPORTED = {"dtype", "device", "hide_launch", "attention", "compile", "threads", "pairs"}
"""Settings that a report has among its inputs."""


class Detail(NamedTuple):
    """How many steps of a path a report shows, and how many operators; 0 shows all."""

    depth: int
    top: int


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How passes are run and timed, by the names of the options; with a `launch` on one rank of several.

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
        from archcli.runtime.profile.work import BuildSettings

        return BuildSettings(self.dtype, self.device, self.attention, distinct_experts)


USUAL_CACHE = 64 << 20
"""Bytes of cache to reckon with where the machine does not say."""


def check_pass(name: str, model: Model, counted: Pass, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs. Raises ArchError where it lacks positions or, on a CPU, memory."""
    check_positions(counted)
    memory = needed_memory(model, counted, settings)
    if settings.device == "cpu":
        require_memory(name, memory, available_memory(), settings.dtype)
    return memory


def needed_memory(model: Model, counted: Pass, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs with these settings."""
    memory = pass_memory(model, counted.request, settings)
    return compiled_memory(memory, counted, settings.dtype) if settings.compile else memory


def pass_memory(model: Model, request: Request, settings: RunSettings) -> dict[str, int]:
    """The memory that a pass needs without torch.compile."""
    backend: Backend = "cpu" if settings.device == "cpu" else "cuda"
    return run_memory(model, request, settings.dtype, settings.attention, backend)


def available(settings: RunSettings) -> int | None:
    """Free bytes of the device, None if unknown. Imports torch for any device but the CPU."""
    if settings.device == "cpu":
        return available_memory()
    from archcli.runtime.profile import work

    work.check_device(settings.device)
    return work.free_memory(settings.device)


def cache_bytes(settings: RunSettings) -> int:
    """Bytes of the device's last-level caches. Imports torch for any device but the CPU."""
    if settings.device == "cpu":
        return cache_size() or USUAL_CACHE
    from archcli.runtime.profile import ceilings

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
