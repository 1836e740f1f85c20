"""Host: the CPU time of torch to launch the kernels of a pass.

Python calls an operation, torch's dispatcher finds its kernel, the driver puts it into a queue. The host runs
ahead of the device: a pass takes the longer of two sums over the pass, host time and device time.
"""

from __future__ import annotations

from typing import NamedTuple

from archcli.wings.serving.predict.constants import MICRO
from archcli.wings.serving.predict.times import Seconds


class Pace(NamedTuple):
    """Microseconds of the host for a launch: as expected, and the range."""

    expected_us: float
    low_us: float
    high_us: float

    @property
    def seconds(self) -> Seconds:
        """Seconds of a launch; their floor is 0, as a datasheet has no figures of the host."""
        expected, low, high = (MICRO * figure for figure in self)
        return Seconds(0.0, expected, low, high, is_calibrated=True)


class Host(NamedTuple):
    """The pace of a framework's launches: forward from Python, backward from autograd's C++ thread."""

    name: str
    forward: Pace
    backward: Pace
    source: str

    def launch(self, stage: str) -> Seconds:
        """Seconds of the host for one launch of a stage of a pass."""
        return (self.backward if stage == "backward" else self.forward).seconds


IN_CPP = Pace(7.0, 5.0, 10.0)
"""Dispatcher, allocator and driver: 5 to 10 µs a launch; 7 is their geometric mean."""
EAGER = Host(
    "eager torch",
    # geometric mean of benchmarks/measured/eager_decode.csv, 23 to 46 µs for each launch counted here, and of
    # the 14 that archcli's own model took on a processor; at best Python hides behind what C++ takes
    Pace(28.0, 5.0, 47.0),
    IN_CPP,
    "5 µs in C++ alone; published decoding of one sequence, 23 to 46 µs for each launch counted here",
)
COMPILED = Host("compiled torch", IN_CPP, IN_CPP, "a wrapper that launches one kernel after the other")
