"""What the framework does between operations: how often they are called, what a call writes and takes."""

import pytest

from archcli.graph import OpClass
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.predict.constants import Efficiency, LastCache, Rates
from archcli.wings.serving.predict.rank.kernels import operation_calls
from archcli.wings.serving.predict.times import KernelClock
from archcli.wings.serving.recorded.classes import TimeClass


def launched(path, times, written, stage="forward"):
    """A kernel of an operation that writes so many bytes."""
    return KernelRun(path, stage, KernelCost("mul", 0, 0, written, "fp32"), OpClass.ELEMENTWISE, times)


def test_a_kernel_that_runs_twice_in_a_call_is_no_call_of_its_own():
    """A rotation in 26 layers: two products, two sums and a concatenation each time."""
    rotation = [launched("rotate", 52, 10), launched("rotate", 52, 10), launched("rotate", 26, 40)]
    (call,) = operation_calls(rotation, "decode")
    assert (call.path, call.times) == ("rotate", 26)
    assert call.kernel == KernelCost("framework", 0, 0, 2 * 10 + 2 * 10 + 40, "fp32")


def test_each_stage_of_an_operation_is_called_and_training_has_its_own_name():
    calls = operation_calls([launched("up", 3, 8), launched("up", 3, 8, "backward")], "train")
    assert [(call.stage, call.times, call.kernel.name) for call in calls] == [
        ("forward", 3, "training_framework"),
        ("backward", 3, "training_framework"),
    ]


def test_a_call_takes_the_host_and_nothing_of_the_device():
    """5 microseconds, and 2,000 bytes at half of 1e9 a second; no floor, in a cache or not."""
    entry = {"launch_us": 5.0, "memory": 0.5, "error": 0.0, "low": 0.9, "high": 1.2, "rows": 3}
    origin = {"table": "made up", "fitted": "2026-11-23"}
    constants = Efficiency({"memory_bound": {"framework": {**entry, **origin}}})
    rates = Rates("made up", {"fp32": 1e12}, 1e9, LastCache(1 << 20, 1e10))
    (call,) = operation_calls([launched("up", 1, 2000)], "decode")
    time = KernelClock(rates, constants).time(call.kernel, TimeClass.FRAMEWORK)
    assert (time.seconds.floor, time.bound_by) == (0.0, "launch")
    assert time.seconds.expected == pytest.approx(5e-6 + 4e-6)
    assert (time.seconds.low, time.seconds.high) == (pytest.approx(8.1e-6), pytest.approx(10.8e-6))
