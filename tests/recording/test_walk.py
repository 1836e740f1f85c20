"""The walk, on traces small enough to be written by hand."""

import pytest

from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.walk import operation, walk
from archcli.wings.serving.recorded.operations import CallTime, OpKey
from table import every_row

EVALUATE = "autograd::engine::evaluate_function: "
LINEAR, NORM = OpKey("l.0.q", "forward", "addmm"), OpKey("l.0.norm", "forward", "native_layer_norm")
BACK, SUM = OpKey("l.0.q", "backward", "mm"), OpKey("l.0.q", "backward", "add")


def event(name, start, end, thread=1, **more):
    return Event(name, start, end, thread, **more)


def owner(sequence):
    return {7: "l.0.q"}.get(sequence, "")


FORWARD = [
    event("archcli:l.0.norm", 0, 30),
    event("aten::layer_norm", 2, 28),
    event("aten::native_layer_norm", 5, 25),
    event("aten::empty", 6, 7),
    event("archcli:l.0.q", 40, 90),
    event("aten::linear", 41, 85),
    event("aten::t", 42, 44),
    event("aten::addmm", 45, 80),
    event("aten::copy_", 46, 50),
]
TRACES = {
    "the first known name takes its whole duration": (
        FORWARD,
        {NORM, LINEAR},
        {NORM: CallTime(20, 1), LINEAR: CallTime(35, 1)},
    ),
    "what no row knows is left": (FORWARD, {NORM}, {NORM: CallTime(20, 1)}),
    "a name counts only in the row that executes it": (FORWARD, {OpKey("l.0.norm", "forward", "addmm")}, {}),
    "calls of one row add up": (
        [event("archcli:l.0.q", 0, 50), event("aten::addmm", 1, 10), event("aten::addmm", 10, 30)],
        {LINEAR},
        {LINEAR: CallTime(29, 2)},
    ),
    "what runs in place has the same name": (
        [event("archcli:l.0.q", 0, 50), event("aten::addmm_", 1, 10)],
        {LINEAR},
        {LINEAR: CallTime(9, 1)},
    ),
    "a composite operation is its parts": (
        [
            event("archcli:a", 0, 50),
            event("aten::where", 1, 40),
            event("aten::scalar_tensor", 2, 4),
            event("aten::where", 5, 35),
        ],
        {OpKey("a", "forward", "where"), OpKey("a", "forward", "scalar_tensor")},
        {
            OpKey("a", "forward", "where"): CallTime(30, 1),
            OpKey("a", "forward", "scalar_tensor"): CallTime(2, 1),
        },
    ),
    "outside of labels": (
        [event("archcli:a", 0, 5), event("aten::arange", 10, 14)],
        {OpKey("", "forward", "arange")},
        {OpKey("", "forward", "arange"): CallTime(4, 1)},
    ),
    "threads that run no row are not looked at": (
        [event("archcli:l.0.q", 0, 50), event("aten::addmm", 1, 10), event("aten::addmm", 1, 10, thread=2)],
        {LINEAR},
        {LINEAR: CallTime(9, 1)},
    ),
    "backward belongs to the row that made the node": (
        [
            event(EVALUATE + "AddmmBackward0", 0, 50, thread=3, sequence=7),
            event("AddmmBackward0", 1, 40, thread=3, sequence=7),
            event("aten::mm", 2, 12, thread=3),
            event("aten::mm", 12, 20, thread=3),
            event("aten::add_", 41, 49, thread=3),
        ],
        {BACK, SUM},
        {BACK: CallTime(18, 2), SUM._replace(phase="sums"): CallTime(8, 1)},
    ),
    "an addition inside a node is the row's own": (
        [
            event(EVALUATE + "XBackward0", 0, 50, sequence=7),
            event("XBackward0", 1, 40),
            event("aten::add", 2, 12),
        ],
        {SUM},
        {SUM: CallTime(10, 1)},
    ),
    "nothing": ([], {LINEAR}, {}),
}


@every_row(("events", "known", "expected"), TRACES.values(), ids=TRACES)
def test_walk(events, known, expected):
    assert walk(events[::-1], known, owner, "archcli:") == expected


def test_on_a_gpu_an_operation_takes_as_long_as_the_kernels_it_launched():
    launches = [
        event("archcli:l.0.q", 0, 50, id=1),
        event("aten::addmm", 1, 10, id=2),
        event("cudaLaunchKernel", 3, 5, id=3, kind="call"),
    ]
    launches += [event("aten::copy_", 5, 9, id=4)]
    kernels = [
        event("gemm", 100, 180, launched_by=2, kind="kernel"),
        event("copy", 180, 190, launched_by=4, kind="kernel"),
    ]
    kernels += [event("stray", 190, 195, launched_by=99, kind="kernel")]
    assert walk(launches + kernels, {LINEAR}, owner, "archcli:", device=True) == {LINEAR: CallTime(90, 1)}


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("aten::add_", "add"),
        ("aten::_softmax", "_softmax"),
        ("gelu", "gelu"),
        ("aten::_index_put_impl_", "index_put"),
    ],
)
def test_the_trace_and_the_dispatcher_name_operations_alike(name, plain):
    assert operation(name) == plain
