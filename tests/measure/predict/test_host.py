"""The host that launches a pass without an engine: its seconds beside those of the device."""

import csv
from pathlib import Path

import pytest

import archcli
from archcli.wings.serving.predict.rank.host import EAGER
from archcli.wings.serving.predict.times import Seconds

PUBLISHED = Path(__file__).parents[3] / "benchmarks" / "measured" / "eager_decode.csv"


def asked(model, device="a100-sxm-80gb", **options):
    """The answer of `predict` on a device."""
    return archcli.predict(model, device, **{"engine": None if "phase" in options else "none", **options})


def test_the_slower_of_host_and_device_is_the_time():
    """An A100 decodes GPT-2 in less than 1 ms; 12 layers launch 14 kernels each, and 6 come beside them."""
    found, kernels = asked("gpt2"), asked("gpt2", engine="trtllm")
    launches = 12 * 14 + 6
    (waiting,) = [row for row in found.rows if row["class"] == "framework"]
    assert (waiting["path"], waiting["times"], waiting["floor_s"]) == ("host", launches, 0.0)
    time = found.totals["time_s"]
    assert time["floor"] < kernels.totals["time_s"]["expected"] < 1e-3
    of_host = [launches * us * 1e-6 for us in EAGER.forward]
    assert [time[name] for name in ("expected", "low", "high")] == pytest.approx(of_host)
    assert sum(row["time_s"] for row in found.rows) == pytest.approx(time["expected"])
    assert found.totals["bound_by"] == "host"
    assert "The host: tokenizing and sampling." in found.not_modelled


def test_a_device_that_takes_longer_hides_the_host():
    """2,048 sequences of GPT-2 keep the device busy while the host launches as many kernels as of one."""
    many = asked("gpt2", batch_size=2048)
    assert not any(row["class"] == "framework" for row in many.rows)
    assert many.totals["bound_by"] == "memory"
    assert many.totals["time_s"]["expected"] > 12 * 14 * EAGER.forward.expected_us * 1e-6


def test_launches_of_the_backward_take_no_python():
    """A layer of a tiny training step: the device takes next to nothing."""
    sizes = {"phase": "train", "batch_size": 1, "seq_len": 8}
    whole = asked("smollm2-135m", **sizes).totals["time_s"]["expected"]
    forward = asked("smollm2-135m", phase="forward", batch_size=1, seq_len=8).totals["time_s"]["expected"]
    assert forward < whole < 3 * forward


def test_compiled_kernels_are_fewer_and_launched_faster():
    eager, compiled = (asked("gpt2", compiled=it).totals["time_s"]["expected"] for it in (False, True))
    assert compiled < eager / 2


def test_the_floor_and_devices_without_constants_know_no_host():
    unknown = asked("gpt2", "rtx-2080-ti").totals["time_s"]
    assert unknown["expected"] is None
    assert Seconds.at_limit(1.0).overlapped(Seconds(0.0, 2.0, 2.0, 2.0)) == Seconds.at_limit(1.0)


def test_published_decoding_of_one_sequence_lies_in_the_range():
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    for row in rows:
        time = asked(row["model"], row["device"], seq_len=int(row["past"])).totals["time_s"]
        measured = float(row["ms_per_token"]) / 1e3
        assert time["floor"] < time["low"] < measured < time["high"], row
