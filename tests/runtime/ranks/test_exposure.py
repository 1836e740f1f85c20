"""How much of a collective computing hides, by events as torch 2.13 traces them with gloo and NCCL."""

from archcli.wings.running.recording.device import Span
from archcli.wings.running.recording.events import Event
from archcli.wings.running.runtime.profile.record import PREFIX
from archcli.wings.running.runtime.ranks.counting import under_way

MAIN, GLOO = 1, 2
COMPUTING = {"mm", "clone"}
FSDP = [
    Event("FSDP::pre_forward", 90, 130, MAIN),
    Event("c10d::_allgather_base_", 100, 110, MAIN),
    Event("gloo:all_gather", 120, 200, GLOO),
    Event("aten::copy_", 150, 190, GLOO),
    Event(f"{PREFIX}layers.0.ffn", 130, 300, MAIN),
    Event("aten::mm", 140, 160, MAIN),
    Event("aten::mm", 145, 155, MAIN),
    Event("aten::mm", 180, 240, MAIN),
]
ROW = [
    Event(f"{PREFIX}layers.0.attention_all_reduce", 400, 600, MAIN),
    Event("_c10d_functional::all_reduce", 410, 450, MAIN),
    Event("aten::clone", 412, 420, MAIN),
    Event("c10d::allreduce_", 425, 445, MAIN),
    Event("gloo:all_reduce", 460, 570, GLOO),
    Event("_c10d_functional::wait_tensor", 455, 590, MAIN),
]


def test_computing_hides_what_is_gathered_ahead():
    [gathered] = under_way(FSDP, COMPUTING, device=False)
    assert (gathered.collective, gathered.span, gathered.of_row) == ("all_gather", Span(100, 200), False)
    # of its 100 the rank computes from 140 to 160 and from 180 on
    assert (gathered.ns, gathered.exposed_ns) == (100, 100 - 20 - 20)


def test_a_row_waits_for_all_of_it():
    [summed] = under_way(ROW, COMPUTING, device=False)
    assert (summed.collective, summed.span, summed.of_row) == ("all_reduce", Span(410, 590), True)
    assert summed.exposed_ns == 590 - 410 - (420 - 412)


def test_a_barrier_is_no_part_of_a_pass():
    met = [Event("gloo:barrier", 0, 50, GLOO), Event("c10d::barrier", 0, 10, MAIN)]
    assert under_way([*met, *FSDP], COMPUTING, device=False) == under_way(FSDP, COMPUTING, device=False)


def test_collectives_are_those_that_were_called():
    """gloo scatters sums by an all-reduce."""
    events = [Event("c10d::_reduce_scatter_base_", 5, 6, MAIN), Event("gloo:all_reduce", 7, 9, GLOO)]
    assert [one.collective for one in under_way(events, COMPUTING, device=False)] == ["reduce_scatter"]
    assert [one.collective for one in under_way(events[1:], COMPUTING, device=False)] == ["all_reduce"]


def test_kernels_hide_kernels():
    events = [
        Event("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgs)", 100, 300, 20, kind="kernel"),
        Event("sm90_xmma_gemm_f32f32", 50, 150, 7, kind="kernel"),
        Event("aten::mm", 150, 290, MAIN),
        Event("Memcpy DtoD", 250, 260, 7, kind="copy"),
    ]
    [scattered] = under_way(events, COMPUTING, device=True)
    assert (scattered.collective, scattered.exposed_ns) == ("reduce_scatter", 200 - 50 - 10)
