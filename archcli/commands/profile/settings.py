"""Settings that only a profile needs beside the request: dtype, device, attention, passes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.commands.profile.launch import RankLaunch
from archcli.errors import ArchError

if TYPE_CHECKING:
    from archcli.runtime.profile.work import BuildSettings


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
