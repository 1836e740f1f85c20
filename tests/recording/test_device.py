"""A traced pass of a GPU.

A small recording, made by hand in kineto's own fields, and what has to come of it to the nanosecond.

Two streams that overlap, a fill, copies over the bus and within the device, a call that waits, a backward on
the engine's thread, a graph, a launch without its kernel, a kernel without its launch, a number that both
numberings use, and ranges that are none.

    CPU 1000 the pass                                                                                    10000
        1300 q        2300 norm 3700 copy 3850 waits 4700 5200 mm 5800 mm  6900 graph       7620 copy
    device        2000 gemm 3000            4000 DtoH 4300         6000 mm 6800 7200 graph 7600 7700 DtoD 7900
                        3000 fill 3100                                                     7600 stray 7650
                    2800 norm 3500
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from archcli.wings.running.recording.chrome_trace import chrome_trace
from archcli.wings.running.recording.device import account, launched_ns, median_activity
from archcli.wings.running.recording.events import TIMED, Event, events_of
from archcli.wings.running.recording.walk import walk
from archcli.wings.serving.recorded.operations import CallTime, OpKey
from table import every_row

FIXTURE = Path(__file__).parent / "fixtures" / "gpu_pass.json"


def raw(recorded):
    """What kineto hands out: a method for each field."""
    methods = {name: lambda value=value: value for name, value in recorded.items()}
    return SimpleNamespace(**methods | {"device_type": lambda: SimpleNamespace(name=recorded["device_type"])})


def read(records):
    return list(
        events_of(
            SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: [raw(each) for each in records]))
        )
    )


RECORDS = json.loads(FIXTURE.read_text())
PASS = read(RECORDS)


def owner(sequence):
    return {7: "l.0.q"}.get(sequence, "")


def kinds(events):
    return [(event.name, event.kind) for event in events]


def test_every_event_is_of_its_kind():
    found = kinds(PASS)
    assert len(PASS) == len(RECORDS) - 2  # not the range's shadow on the device, not the tracer's overhead
    assert {kind for name, kind in found if name.startswith(("aten", "archcli", "autograd"))} == {"cpu"}
    assert {name for name, kind in found if kind == "call"} == {
        name for name, _ in found if name.startswith("cu")
    }
    assert [name for name, kind in found if kind == "copy"] == [
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy DtoD (Device -> Device)",
    ]
    assert [name for name, kind in found if kind == "fill"] == ["Memset (Device)"]
    assert {event.thread for event in PASS if event.on_device} == {7, 20}


def test_older_releases_that_do_not_name_the_kind_are_read_alike():
    older = [{name: value for name, value in each.items() if name != "activity_type"} for each in RECORDS]
    shadows = [each["activity_type"] == "gpu_user_annotation" for each in RECORDS]
    found = [raw(each) for each in older]
    for one, shadow in zip(found, shadows, strict=True):
        one.is_user_annotation = lambda shadow=shadow: shadow
    events = list(events_of(SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: found))))
    assert [event for event in events if event.name != "Activity Buffer Request"] == PASS


def test_the_account_is_exact_and_adds_up():
    found = account(PASS)
    assert found.busy_ns == (3500 - 2000) + (6800 - 6000) + (7650 - 7200) + (7900 - 7700)
    assert found.copy_ns == 4300 - 4000
    assert found.sync_ns == (4000 - 3850) + (4700 - 4300)
    assert found.launch_ns == (3850 - 3500) + (6000 - 4700) + (7200 - 6800) + (7700 - 7650)
    assert found.ends_ns == (2000 - 1000) + (10000 - 7900)
    assert found.wall_ns == 10000 - 1000


def test_launches_and_kernels_are_held_against_each_other_by_their_numbers():
    found = account(PASS)
    assert (found.activities, found.launches, found.waits) == (9, 8, 1)
    assert found.lost == ("aten::mm: cudaLaunchKernelExC without a kernel", "stray without a launch")


def test_operations_take_the_time_of_what_they_launched():
    names = {
        "l.0.q": "addmm",
        "l.0.norm": "native_layer_norm",
        "l.0.attend": "_scaled_dot_product_flash_attention",
        "l.0.copy": "clone",
    }
    known = {OpKey(path, "forward", name) for path, name in names.items()}
    known |= {OpKey("l.0.q", "backward", "mm"), OpKey("", "forward", "_local_scalar_dense")}
    assert walk(PASS, known, owner, "archcli:", device=True) == {
        OpKey("l.0.q", "forward", "addmm"): CallTime((3000 - 2000) + (3100 - 3000), 1),
        OpKey("l.0.norm", "forward", "native_layer_norm"): CallTime(3500 - 2800, 1),
        OpKey("", "forward", "_local_scalar_dense"): CallTime(4300 - 4000, 1),
        OpKey("l.0.q", "backward", "mm"): CallTime(6800 - 6000, 2),
        OpKey("l.0.attend", "forward", "_scaled_dot_product_flash_attention"): CallTime(
            (7500 - 7200) + (7600 - 7500), 1
        ),
        OpKey("l.0.copy", "forward", "clone"): CallTime(7900 - 7700, 1),
    }


def test_a_number_of_a_call_is_none_of_a_range():
    launched = launched_ns(PASS)
    of = {event.name: launched(event) for event in PASS if event.id == 3 and not event.on_device}
    assert of == {"aten::addmm": 1100, "cudaMemcpyAsync": 0}


def test_a_trace_of_a_gpu_shows_streams_apart():
    document = chrome_trace(PASS, owner, "archcli:", "tiny")
    shown = {
        (entry["cat"], entry["tid"])
        for entry in document["traceEvents"]
        if entry.get("pid") == 2 and entry["ph"] == "X"
    }
    assert shown == {("kernel", 7), ("kernel", 20), ("memcpy", 7), ("memset", 7)}


def cpu(name, start, end, **more):
    return Event(name, start, end, 1, **more)


def call(number, start, name="cudaLaunchKernel", lasts=5):
    return Event(name, start, start + lasts, 1, id=number, kind="call")


def kernel(number, start, end, name="k", kind="kernel"):
    return Event(name, start, end, 7, id=number, kind=kind)


WHOLE = cpu(TIMED, 0, 1000, id=1)
SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"
ACCOUNTS = {  # events: busy, copy, sync, launch, ends
    "nothing": ([], (0, 0, 0, 0, 0)),
    "no kernel": ([WHOLE], (0, 0, 0, 0, 1000)),
    "a copy beside a kernel is the kernel's time": (
        [
            WHOLE,
            call(1, 5),
            kernel(1, 100, 300),
            call(2, 15, "cudaMemcpyAsync"),
            kernel(2, 200, 450, "Memcpy HtoD", "copy"),
        ],
        (200, 150, 0, 0, 100 + 550),
    ),
    "a kernel inside of another": (
        [WHOLE, call(1, 5), kernel(1, 100, 900), call(2, 15), kernel(2, 300, 400)],
        (800, 0, 0, 0, 200),
    ),
    "a pass begins behind the kernel that waits": (
        [
            WHOLE,
            call(1, 5),
            kernel(1, 10, 400, SPIN),
            call(2, 20),
            kernel(2, 400, 600),
            call(3, 30),
            kernel(3, 650, 900),
        ],
        (200 + 250, 0, 0, 50, 100),
    ),
    "what was launched before the pass is not the pass's": (
        [WHOLE, call(1, -50), kernel(1, -40, 100), call(2, 20), kernel(2, 200, 600)],
        (400, 0, 0, 0, 200 + 400),
    ),
    "clocks that differ a little put no time outside of the pass": (
        [WHOLE, call(1, 0), kernel(1, -10, 300), call(2, 20), kernel(2, 400, 1015)],
        (300 + 600, 0, 0, 100, 0),
    ),
    "waiting while the device computes is no idling": (
        [
            WHOLE,
            call(1, 5),
            kernel(1, 100, 300),
            call(9, 20, "cudaStreamSynchronize", 300),
            call(2, 330),
            kernel(2, 400, 1000),
        ],
        (200 + 600, 0, 20, 80, 100),
    ),
}


@every_row(("events", "parts"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_an_account(events, parts):
    found = account(events[::-1])
    assert (found.busy_ns, found.copy_ns, found.sync_ns, found.launch_ns, found.ends_ns) == parts
    assert found.lost == ()
    assert found.activities == found.launches


def test_a_graph_is_one_launch_of_many_kernels():
    found = account(
        [WHOLE, call(1, 5, "cudaGraphLaunch"), kernel(1, 100, 200), kernel(1, 200, 300), kernel(1, 250, 400)]
    )
    assert (found.activities, found.launches, found.lost) == (3, 1, ())


def test_a_call_of_the_driver_within_one_of_the_runtime_is_the_same_launch():
    found = account(
        [WHOLE, call(1, 5, "cudaLaunchKernelExC", 20), call(2, 10, "cuLaunchKernelEx"), kernel(1, 100, 200)]
    )
    assert (found.activities, found.launches, found.lost) == (1, 1, ())


def test_what_the_tracer_lost_is_counted():
    lost = [call(number, 10 * number) for number in range(1, 4)]
    assert account([WHOLE, *lost]).lost == ("no operation: cudaLaunchKernel without a kernel x3",)


@pytest.mark.parametrize(
    "name",
    ["cudaLaunchHostFunc", "cudaEventRecord", "cudaMalloc", "cudaStreamWaitEvent", "cudaFuncGetAttributes"],
)
def test_a_call_that_gives_the_device_no_work_is_no_launch(name):
    assert not call(1, 5, name).launches


@every_row(
    "name",
    [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cuMemcpyDtoDAsync_v2",
        "hipLaunchKernel",
    ],
)
def test_a_call_that_does_is_one(name):
    assert call(1, 5, name).launches


def test_the_middle_of_passes_is_that_of_each_figure():
    quick, slow = (
        account([WHOLE, call(1, 5), kernel(1, 100, 200)]),
        account([WHOLE, call(1, 5), kernel(1, 100, 500), call(2, 15)]),
    )
    found = median_activity([quick, slow, slow])
    assert (found.busy_ns, found.ends_ns, found.wall_ns) == (400, 600, 1000)
    assert found.lost == slow.lost
    assert median_activity([]) is None
