"""What disturbed passes: readings of /proc that are written here, and what they add up to."""

import hashlib
import os
import threading
import time

import pytest

from archcli.wings.running.recording.disturbance import (
    Disturbance,
    ProcessorTimes,
    disturbance,
    processor_times,
    worst,
)
from archcli.wings.serving.recorded.machine import usable_processors

TICK = os.sysconf("SC_CLK_TCK")


def proc(folder, mine, other, waits):
    """A /proc with two processors of so many ticks by column, and threads that waited so many ns."""
    stat = [f"cpu  {' '.join(map(str, mine))}"]
    stat += [f"cpu{number} {' '.join(map(str, ticks))}" for number, ticks in enumerate((mine, other))]
    (folder / "stat").write_text("\n".join([*stat, "intr 5 0", "ctxt 9", ""]))
    for number, wait in enumerate(waits):
        task = folder / "self" / "task" / str(number)
        task.mkdir(parents=True)
        (task / "schedstat").write_text(f"123456 {wait} 7\n")
    return folder


def test_the_busy_time_of_usable_processors_is_read(tmp_path, monkeypatch):
    """User, nice, system, irq and softirq are busy; idle and iowait are not; steal is the host's."""
    folder = proc(tmp_path, (1, 20, 300, 5000, 7000, 4, 50, 9), (600, 0, 0, 0, 0, 0, 0, 2), (3, 2))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    times = processor_times(folder)
    assert times.busy_s == pytest.approx((1 + 20 + 300 + 4 + 50) / TICK)
    assert times.stolen_s == pytest.approx(9 / TICK)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    times = processor_times(folder)
    assert (times.busy_s, times.stolen_s) == (pytest.approx(975 / TICK), pytest.approx(11 / TICK))


def test_waiting_is_that_of_all_threads(tmp_path):
    folder = proc(tmp_path, [0] * 8, [0] * 8, (3_000_000_000, 250_000_000))
    (folder / "self" / "task" / "gone").mkdir()
    assert processor_times(folder).waited_s == pytest.approx(3.25)


def test_elsewhere_only_the_own_time_is_known(tmp_path):
    times = processor_times(tmp_path)
    assert times[2:] == (None, None, None)
    assert times.waited_share is None
    assert times.own_s > 0


@pytest.mark.long
def test_a_thread_that_computes_is_seen_in_the_own_time():
    before, end = processor_times(), time.monotonic() + 0.2
    while time.monotonic() < end:
        pass
    times = processor_times().since(before)
    assert times.wall_s >= 0.2
    assert 0 < times.own_s <= times.wall_s * 1.1 + 0.02


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not say who waited")  # noqa: PTH110
def test_threads_that_share_a_processor_are_seen_waiting():
    """Three threads that hash without Python's lock, kept on one processor: two of them wait."""
    usable = os.sched_getaffinity(0)
    ends, data = time.monotonic() + 0.4, bytes(1 << 22)

    def work():
        os.sched_setaffinity(0, {min(usable)})
        while time.monotonic() < ends:
            hashlib.sha256(data)

    threads = [threading.Thread(target=work) for _ in range(3)]
    before = processor_times()
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    times = processor_times().since(before)
    for thread in threads:
        thread.join()
    assert times.waited_share > 0.4


PASSES = [ProcessorTimes(0.5, 0.6, 1.0, 0.05, 0.2), ProcessorTimes(1.5, 1.4, 2.0, 0.15, 0.3)]


def test_figures_are_of_all_passes_together():
    """2 s in which this process ran 2.0, anything 3.0, the host of the machine 0.2, and 0.5 was waited."""
    seen = disturbance(PASSES, [1.0, 2.0, 3.0, 4.0, 5.0], 2)
    assert seen == Disturbance(
        2, pytest.approx(0.5), pytest.approx(0.1), pytest.approx(0.5 / 2.5), pytest.approx(2 / 3)
    )


def test_ticks_say_nothing_of_a_moment():
    short = [ProcessorTimes(0.05, 0.05, 0.1, 0.0, 0.05)] * 3
    assert disturbance(short, [0.05] * 3, 2) == Disturbance(2, None, None, pytest.approx(0.5), 0.0)
    assert disturbance([ProcessorTimes()], [1.0], 2) == Disturbance(2)


def test_what_one_pass_does_not_know_is_unknown():
    assert disturbance([*PASSES, ProcessorTimes(1.0, 1.0)], [1.0], 2) == Disturbance(2)


def test_the_worst_of_several_recordings():
    several = [Disturbance(2, 0.1, None, 0.5, 0.0), Disturbance(2, 0.3, None, 0.2, 0.4)]
    assert worst(several) == Disturbance(2, 0.3, None, 0.5, 0.4)


def test_at_least_one_processor_is_usable():
    assert usable_processors() == sorted(set(usable_processors())) != []
