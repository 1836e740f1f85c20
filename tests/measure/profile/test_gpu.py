"""What a report says of a GPU, of made-up figures.

A whole recording by a make-believe card that launches nothing.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from torch.autograd import profiler

from archcli.measure.passes import checked_pass
from archcli.modules.spec.request import Request
from archcli.render import rendered
from archcli.wings.running.profile.extrapolate.recording import extrapolated
from archcli.wings.running.profile.reports.variants import MeasuredVariant
from archcli.wings.running.profile.reports.versus import versus
from archcli.wings.running.recording.device import DeviceActivity
from archcli.wings.running.recording.recording import GpuPasses, Timing
from archcli.wings.running.runtime.profile.ceilings import CPU, sizes_of
from archcli.wings.running.runtime.profile.clock import DeviceClock
from archcli.wings.running.runtime.profile.machine import machine
from archcli.wings.running.runtime.profile.record import record
from archcli.wings.running.runtime.profile.variants import record_variants, timed_variant
from archcli.wings.running.runtime.profile.work import prepare
from card import Card
from measure.profile.test_one import INPUTS, QUIET, report
from recordings import MODELS, question

MS = 1_000_000
DEVICE = DeviceActivity(
    busy_ns=800 * MS,
    copy_ns=20 * MS,
    sync_ns=30 * MS,
    launch_ns=100 * MS,
    ends_ns=50 * MS,
    activities=120,
    launches=118,
)
COOL = {
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": 2619,
    "power_w": 300.0,
    "temperature_c": 50,
    "slowed_by": [],
}
GPU = replace(
    QUIET,
    machine={"device": "cuda"},
    gpu=GpuPasses(
        DEVICE,
        host_s=QUIET.plain_s,
        device_s=(0.98, 0.88, 1.08),
        states=(COOL, COOL | {"sm_clock_mhz": 1965}),
    ),
)


def with_passes(**changed):
    return replace(GPU, gpu=replace(GPU.gpu, **changed))


def test_busy_and_idle_add_up_to_the_traced_pass():
    found = report(recording=GPU).totals["device"]
    assert found["idle_s"] == {"launch": 0.1, "sync": 0.03, "copy": 0.02, "ends": 0.05}
    assert (found["busy_s"], found["wall_s"]) == (0.8, 1.0)
    assert (found["kernels"], found["launches"]) == (120, 118)
    assert (found["plain_host_s"], found["plain_device_s"]) == ([1.0, 0.9, 1.1], [0.98, 0.88, 1.08])


def test_shares_are_of_the_wall_and_of_the_busy_device():
    slow = replace(GPU, plain_s=(2.0,), traced_s=(2.0,))  # operations took 0.6, 0.2 and 0.05 s
    totals = report(recording=slow).totals
    assert totals["device"]["busy_share"] == 0.8
    assert totals["device"]["busy_share_of_plain"] == 0.4
    contraction = totals["by_class"]["contraction"]
    assert (contraction["time_share"], contraction["busy_share"]) == (0.6 / 2.0, pytest.approx(0.6 / 0.8))
    assert totals["by_class"]["framework"]["busy_share"] is None
    assert totals["by_class"]["unattributed"]["busy_share"] is None


def test_a_cpu_has_no_device_in_its_report():
    found = report()
    assert found.totals["device"] is None
    assert {entry["busy_share"] for entry in found.totals["by_class"].values()} == {None}
    assert "busy" not in rendered(found, "plain")
    assert "framework (Python, dispatch, views)" in rendered(found, "plain")


def test_people_see_both_denominators_and_the_readings():
    printed = rendered(report(recording=GPU), "plain")
    for words in (
        "of busy device",
        "device busy / plain wall",
        "waiting for launches",
        "120; 118",
        "1980, 1965 MHz",
        "300, 300 W",
        "framework (the device idle, views)",
    ):
        assert words in printed
    assert "Not measured on a GPU yet" in printed


LOST = ("aten::mm: cudaLaunchKernel without a kernel",)
DOUBTS = {
    "kernels and launches differ: aten::mm: cudaLaunchKernel": with_passes(lost=LOST),
    "SM clock fell from 1980 to 1500 MHz": with_passes(states=(COOL, COOL | {"sm_clock_mhz": 1500})),
    "The card was slowed down: power cap": with_passes(states=(COOL | {"slowed_by": ["power cap"]}, COOL)),
    "last launch: 3. Launches behind one": with_passes(hidden=True, on_device=replace(DEVICE, waits=3)),
    "Launches are hidden": with_passes(hidden=True),
    "were not read; to read them pip install nvidia-ml-py": with_passes(states=()),
}


@pytest.mark.parametrize(("words", "recording"), DOUBTS.items(), ids=DOUBTS)
def test_a_note_warns(words, recording):
    assert any(words in note for note in report(recording=recording).notes)
    assert not any(words in note for note in report(recording=GPU).notes)
    assert not any(words in note for note in report().notes)


def test_lost_kernels_make_a_report_unreliable():
    found = report(recording=with_passes(lost=LOST))
    assert not found.totals["reliable"]
    assert found.totals["launches_lost"] == list(LOST)
    assert "NOT RELIABLE" in found.tables[0].title


def test_variants_say_so_too():
    counted = checked_pass(MODELS["gpt2"], question("forward"))
    sides = [
        MeasuredVariant(letter, "", MODELS["gpt2"], counted, "fp32", Timing(each, each.plain_s, ({}, {}, {})))
        for letter, each in (("A", GPU), ("B", with_passes(lost=LOST)))
    ]
    found = versus(sides, INPUTS)
    assert [one["launches_lost"] for one in found.totals["variants"]] == [[], list(LOST)]
    assert [one["reliable"] for one in found.totals["variants"]] == [
        report(recording=GPU).totals["reliable"],
        False,
    ]
    assert "B: device busy / plain wall" in rendered(found, "plain")
    assert any(note.startswith("B: NOT RELIABLE: kernels and launches differ") for note in found.notes)


def test_what_is_extrapolated_keeps_what_was_lost():
    small = SimpleNamespace(name="no layer")
    plan = SimpleNamespace(ends=small, pairs=(), stacks=lambda: [small], held=frozenset())
    found = extrapolated(plan, {"no layer": with_passes(lost=LOST, hidden=True)})
    assert found.lost == ("no layer: " + LOST[0],)
    assert found.gpu.hidden
    assert (found.on_device, found.gpu.host_s, found.gpu.device_s) == (None, (), ())


def test_a_pass_that_launches_nothing_is_all_idle(monkeypatch):
    """A card that is there and given nothing to do: the model runs on the CPU and is traced there."""
    Card().instead_of_torch(monkeypatch)
    monkeypatch.setattr(
        "archcli.wings.running.runtime.profile.record.clock_of", lambda *_, **__: DeviceClock("cuda")
    )
    monkeypatch.setattr(
        "archcli.wings.running.runtime.profile.record.tracing",
        lambda clock: profiler.profile(use_kineto=True),
    )
    recording = record(
        prepare(MODELS["gpt2"], Request("forward", 1, 4)), "cpu", 2, lambda what, done, total: None
    )
    assert recording.differing == recording.lost == ()
    assert recording.on_device.busy_ns == recording.on_device.launches == 0
    assert recording.on_device.ends_ns == recording.on_device.wall_ns > 0
    assert {timed.seconds for timed in recording.timed} == {0.0}
    assert len(recording.gpu.host_s) == len(recording.gpu.device_s) == 2
    assert not recording.gpu.hidden


def test_a_cpu_has_no_clock_but_its_own():
    work = prepare(MODELS["gpt2"], Request("forward", 1, 4))
    (timing,) = record_variants([timed_variant(work, "cpu")], 1, lambda what, done, total: None)
    recording = timing.recording
    assert (recording.gpu, recording.on_device, recording.lost) == (None, None, ())


def test_buffers_for_a_gpu_fit_its_cache_or_do_not(monkeypatch):
    monkeypatch.setattr(
        "torch.cuda.get_device_properties", lambda place: SimpleNamespace(L2_cache_size=48 << 20)
    )
    sizes = sizes_of("cuda:0")
    assert max(sizes.caches) == (48 << 20) // 2
    assert sizes.dram > 10 * (48 << 20)
    assert sizes_of("cpu") == CPU


@pytest.mark.parametrize(("precision", "words"), [("highest", "in fp32"), ("high", "in TF32")])
def test_a_report_says_in_what_a_gpu_multiplies(monkeypatch, precision, words):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "a card")
    monkeypatch.setattr("torch.get_float32_matmul_precision", lambda: precision)
    found = machine("cuda")
    assert (found["processor"], found["fp32 products"]) == ("a card", words)
    assert "fp32 products" not in machine("cpu")
