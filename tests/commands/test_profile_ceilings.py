"""Ceilings of a machine are kept for later runs where nothing disturbed their measurement."""

from dataclasses import replace

import pytest

from archcli.wings.running.api.profiling import settings as module
from archcli.wings.running.api.profiling.settings import RunSettings, machine_ceilings
from archcli.wings.running.recording.disturbance import Disturbance, ProcessorTimes
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.runtime.profile import ceilings as measuring
from archcli.wings.serving.devices.ceilings import ceilings_file, kept_ceilings
from archcli.wings.serving.recorded.machine import Ceilings

MEASURED = Ceilings(
    gemm_flops_per_s=2e12, dram_bytes_per_s=1e10, cache_bytes_per_s=4e10, dtype="fp32", measured="now"
)
SETTINGS = RunSettings(
    dtype="fp32",
    device="cpu",
    attention="sdpa",
    threads=None,
    pairs=None,
    ceilings=True,
    refresh=False,
    trace=False,
)
QUIET = Disturbance(2, 0.0, 0.0, 0.0, 0.02)
MACHINE = {"processor": "AVX512", "threads": 2, "torch": "2.13.0"}
PASS = Recording((), (), (1.0,), (1.0,), 0.1, 2, 2, (), 0, 0, 0.0, MACHINE, disturbance=QUIET)
ALONE, BESIDE_OTHERS = (ProcessorTimes(1.0, *rest) for rest in ((2.0, 2.1, 0.0, 0.001), (1.0, 2.0, 0.0, 1.0)))
"""Seconds of the processors while the ceilings are measured, which takes one second."""


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """kept(recording, times): what later runs know once the ceilings are measured in these times."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measuring, "measure_ceilings", lambda *_: MEASURED)

    def after(recording, times):
        readings = iter(
            [ProcessorTimes(0.0, 0.0, 0.0, 0.0, 0.0), ProcessorTimes(*times)._replace(wall_s=1.0)]
        )
        monkeypatch.setattr(module, "processor_times", lambda: next(readings))
        assert machine_ceilings(recording, SETTINGS, lambda *_: None) == MEASURED
        return list(kept_ceilings(ceilings_file()).values())

    return after


def test_a_quiet_machine_is_remembered_whatever_its_load_was_before(kept):
    assert kept(replace(PASS, load=5.0), ALONE) == [MEASURED | {"measured": "earlier"}]


def test_a_machine_that_was_busy_meanwhile_is_not(kept):
    assert kept(PASS, BESIDE_OTHERS) == []


def test_nor_one_that_was_busy_before(kept):
    busy = replace(PASS, disturbance=QUIET._replace(others=1.0, waited_share=0.4))
    assert kept(busy, ALONE) == []
