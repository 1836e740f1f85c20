"""Readings of a card: all there are, those that are missing left out, none without pynvml or on a CPU."""

import sys
from importlib import import_module
from types import SimpleNamespace

import pytest

from archcli.wings.running.runtime.profile.machine import _read, gpu_state

ALL = {
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": 2619,
    "power_w": 312.5,
    "temperature_c": 54,
    "slowed_by": ["power cap", "thermal slowdown"],
}


class NVMLError(Exception):
    pass


def refuse(*_):
    raise NVMLError("not supported")


@pytest.fixture
def nvml(monkeypatch):
    """A library that knows one card by its number, slowed down by power cap and heat, and idle now."""
    cards = {"GPU-5": "the card"}
    known = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=cards.__getitem__,
        nvmlDeviceGetClockInfo=lambda card, clock: {("the card", 2): 2619}[card, clock],
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda card: 0x1 | 0x4 | 0x20,
    )
    monkeypatch.setitem(sys.modules, "pynvml", known)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda place: SimpleNamespace(uuid="5"))
    monkeypatch.setattr("torch.cuda.clock_rate", lambda place: 1980)
    monkeypatch.setattr("torch.cuda.power_draw", lambda place: 312_500)
    monkeypatch.setattr("torch.cuda.temperature", lambda place: 54)
    return known


def test_everything_is_read(nvml):
    assert gpu_state("cuda") == ALL


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ("nvmlDeviceGetClockInfo", {"memory_clock_mhz"}),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", {"slowed_by"}),
        ("nvmlInit", {"memory_clock_mhz", "slowed_by"}),
    ],
)
def test_what_a_card_does_not_say_is_left_out(nvml, missing, names):
    setattr(nvml, missing, refuse)
    assert gpu_state("cuda:0") == {name: value for name, value in ALL.items() if name not in names}


def test_an_older_torch_without_the_number_of_a_card(nvml, monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda place: SimpleNamespace())
    assert gpu_state("cuda").keys() == {"sm_clock_mhz", "power_w", "temperature_c"}


def test_nothing_is_said_without_the_library_or_a_card(nvml, monkeypatch):
    assert gpu_state("cpu") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_state("cuda") is None


def test_the_library_itself_refuses_as_it_does_here():
    """Of no card that is there, with a driver or without one."""
    nvml = import_module("pynvml")
    readings = {
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(nvml.nvmlDeviceGetHandleByUUID("none"), 2),
        "slowed_by": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(None),
    }
    for reading in readings.values():
        with pytest.raises(nvml.NVMLError):
            reading()
    assert dict(_read(readings, nvml.NVMLError)) == {}


def test_a_library_that_finds_no_driver_says_nothing(nvml, monkeypatch):
    nvml.nvmlInit = refuse
    for name in ("clock_rate", "power_draw", "temperature"):
        monkeypatch.setattr(f"torch.cuda.{name}", refuse)
    assert gpu_state("cuda") is None
