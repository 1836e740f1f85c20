"""Clocks: the time of a pass on the processor and on a make-believe card.

Launches on the card cost more than its kernels.
"""

import pytest
import torch
from torch.autograd import profiler

from archcli.wings.running.recording.events import TIMED, events_of
from archcli.wings.running.runtime.profile.clock import (
    LEAST_WAIT_S,
    MARGIN,
    PROBE_CYCLES,
    DeviceClock,
    HidingClock,
    HostClock,
    Run,
    clock_of,
    run_pass,
)
from card import Card

LAUNCH, KERNEL, MANY = 10_000, 2_000, 300


@pytest.fixture
def card(monkeypatch):
    return Card().instead_of_torch(monkeypatch).instead_of_time(monkeypatch)


def step_of(card, launches=MANY):
    def step():
        for _ in range(launches):
            card.launch(LAUNCH, KERNEL)

    return step


def warmed(clock, step):
    for _ in range(clock.warm_ups):
        clock.warm_up(step)
    return clock


@pytest.mark.parametrize(
    ("device", "hide_launch", "kind"),
    [
        ("cpu", False, HostClock),
        ("cpu", True, HostClock),
        ("cuda", False, DeviceClock),
        ("cuda:1", False, DeviceClock),
        ("cuda", True, HidingClock),
    ],
)
def test_each_device_has_its_clock(device, hide_launch, kind):
    clock = clock_of(device, hide_launch=hide_launch)
    assert type(clock) is kind
    assert clock.on_gpu is (kind is not HostClock)
    assert clock.warm_ups >= 2
    assert kind is HostClock or clock.device == torch.device(device)


def test_the_host_times_a_pass_until_it_returns(monkeypatch):
    times = iter([3.0, 5.5])
    monkeypatch.setattr("archcli.wings.running.runtime.profile.clock.time.perf_counter", lambda: next(times))
    run = run_pass(lambda: None, HostClock())
    assert (run.seconds, run.host_s, run.lasted_s, run.device_s) == (2.5, 2.5, 2.5, None)


def test_a_device_is_timed_until_its_last_kernel_ends(card):
    run = run_pass(step_of(card), warmed(DeviceClock("cuda"), step_of(card)))
    assert run.seconds == run.host_s == pytest.approx((MANY * LAUNCH + KERNEL) / 1e9)
    assert run.device_s == pytest.approx(
        (MANY * LAUNCH + KERNEL) / 1e9
    )  # the events are recorded at once: nothing was queued before
    assert card.slept == []


def test_hidden_launches_take_no_time(card):
    clock = warmed(HidingClock("cuda"), step_of(card))
    card.slept.clear()
    run = run_pass(step_of(card), clock)
    assert run.seconds == run.device_s == MANY * KERNEL / 1e9
    assert card.slept == [MARGIN * MANY * LAUNCH]  # a cycle is a nanosecond of this card
    assert run.lasted_s == pytest.approx((MARGIN * MANY * LAUNCH + MANY * KERNEL) / 1e9)


def test_a_short_pass_waits_a_millisecond_as_in_the_paper(card):
    clock = warmed(HidingClock("cuda"), step_of(card, 3))
    assert clock.cycles == LEAST_WAIT_S * 1e9 == 1_000_000
    assert set(card.slept) == {PROBE_CYCLES}


def test_only_the_last_warm_up_says_how_long_to_wait(card):
    clock = HidingClock("cuda")
    clock.warm_up(step_of(card, 100 * MANY))  # loading and choosing kernels
    clock.warm_up(step_of(card))
    assert clock.cycles == MARGIN * MANY * LAUNCH


def test_what_waits_for_the_device_cannot_be_hidden(card):
    def step():
        step_of(card)()
        card.synchronize()
        step_of(card)()

    run = run_pass(step, warmed(HidingClock("cuda"), step))
    assert run.seconds > 2 * MANY * KERNEL / 1e9


def test_a_pass_is_disturbed_by_switches_of_all_the_time_it_lasted():
    quick = Run(seconds=0.001, faults=0, switches=5, host_s=1.0, device_s=0.001)
    assert not quick.disturbed
    assert quick._replace(host_s=0.01).disturbed
    assert Run(seconds=0.001, faults=0, switches=5).disturbed


def test_the_range_of_a_timed_pass_is_in_the_trace(card):
    with profiler.profile(use_kineto=True) as trace:
        run_pass(lambda: torch.ones(3) + 1, DeviceClock("cuda"))
    events = {event.name: event for event in events_of(trace)}
    assert (
        events[TIMED].start_ns
        <= events["aten::add"].start_ns
        < events["aten::add"].end_ns
        <= events[TIMED].end_ns
    )
