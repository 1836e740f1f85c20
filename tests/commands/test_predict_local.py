"""`archcli predict --device local`: this machine's measured ceilings, and what is refused."""

import json
import sys

import pytest

from archcli.wings.serving.api.known_device import profiles
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.predict.calibrate import calibration as local
from archcli.wings.serving.recorded import cuda_driver

KEY = "a CPU | AVX512 | 2 | fp32 | cpu | 2.13.0"
MEASURED = {
    "gemm_flops_per_s": 1e11,
    "dram_bytes_per_s": 1e10,
    "cache_bytes_per_s": 8e10,
    "dtype": "fp32",
    "measured": "now",
}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """machine(ceilings by key): this machine without a GPU, and what earlier profiles measured."""
    monkeypatch.setattr(cuda_driver, "local_gpus", lambda: ())
    monkeypatch.setattr(profiles, "processor", lambda: "a CPU")
    monkeypatch.setattr(local, "cache_size", lambda: 1 << 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def knows(ceilings):
        (tmp_path / "archcli").mkdir(exist_ok=True)
        (tmp_path / "archcli" / "ceilings.json").write_text(json.dumps(ceilings))

    return knows


def test_the_peaks_are_those_measured_the_fastest_of_several_threads(machine):
    machine(
        {KEY: MEASURED, KEY.replace("| 2 |", "| 1 |"): {**MEASURED, "gemm_flops_per_s": 5e10}}
        | {KEY.replace("a CPU", "another"): {**MEASURED, "gemm_flops_per_s": 9e11}}
    )
    device = known_device("local").timed
    rates = device.timing.clock.rates
    assert rates.peak("fp32") == 1e11
    assert (rates.memory(1 << 20), rates.memory((1 << 20) + 1)) == (8e10, 1e10)
    assert device.backend == "cpu"


def test_a_floor_alone_without_torch(machine, cli, monkeypatch):
    machine({KEY: MEASURED})
    monkeypatch.setitem(sys.modules, "torch", None)
    done = cli("predict", "gpt2", "--device", "local", "--dtype", "fp32", "--past", "16", "--json")
    assert (done.code, done.err) == (0, "")
    times = json.loads(done.out)["totals"]["time_s"]
    assert times["floor"] > 0
    assert times["expected"] is None


@pytest.mark.parametrize(
    ("ceilings", "said"),
    [
        ({}, "peaks of this machine are not measured yet"),
        ({KEY: MEASURED}, "no peak of bf16 is measured"),
    ],
)
def test_what_is_not_measured_is_refused_with_the_command_that_measures_it(machine, cli, ceilings, said):
    machine(ceilings)
    done = cli("predict", "gpt2", "--device", "local")
    assert done.code == 2
    assert said in done.err
    assert "archcli profile gpt2" in done.err


def test_calibrations_are_of_this_machine_alone(cli, tmp_path):
    done = cli("predict", "gpt2", "--device", "h100-sxm", "--calibrate", tmp_path / "a.json")
    assert done.code == 2
    assert "--device local" in done.err


def test_a_file_that_is_no_profile_is_refused(machine, cli, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    done = cli("predict", "gpt2", "--device", "local", "--calibrate", tmp_path / "a.json")
    assert done.code == 2
    assert "not a result of archcli" in done.err
