"""--free: what a desktop and other programs leave of a device; and of this machine's RAM what is free now."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.wings.serving.devices import budget
from archcli.wings.serving.recorded import cuda_driver, machine
from table import every_row

GIB = 2**30
SERVED = {"phase": "serve", "device": "rtx-4090", "seq_len": 8192}


def test_no_more_than_what_is_free_is_taken():
    """vLLM takes 0.92 of 23.5 GiB, or less where less is free; llama.cpp all that is free."""
    for free, taken in {"20GiB": 20 * GIB, "23GiB": None}.items():
        inputs = archcli.count_memory("llama-3.1-8b", **SERVED, free=free).inputs
        whole = archcli.count_memory("llama-3.1-8b", **SERVED).inputs["memory_bytes"]
        assert inputs["memory_bytes"] == (taken or whole)
    held = archcli.count_memory("llama-3.1-8b", **SERVED, free="21GiB", engine="llamacpp").inputs
    assert held["memory_bytes"] == 21 * GIB


def test_an_engine_of_a_fixed_share_is_told_what_it_can_begin_with():
    report = archcli.count_memory("llama-3.1-8b", **SERVED, free="20GiB")
    share = 20 * GIB / (report.inputs["memory_bytes"] / report.inputs["utilization"])
    assert f"a share of {int(100 * share) / 100:g} at most" in " ".join(report.notes)
    assert report.headline.startswith("Fits into rtx-4090 (20.0 GiB free of 23.5 GiB): ")
    alone = archcli.count_memory("llama-3.1-8b", **SERVED)
    assert not any("at most (--utilization)" in note for note in alone.notes)


def test_fit_and_predict_ask_about_the_same_memory():
    fitted = archcli.fit("llama-3.1-8b", "rtx-4090", free="17GiB", dtype="bf16").totals
    options = {**SERVED, "seq_len": fitted["context"], "free": "17GiB"}
    assert archcli.count_memory("llama-3.1-8b", **options).totals["peak_bytes"] == fitted["peak_bytes"]
    assert fitted["context"] < archcli.fit("llama-3.1-8b", "rtx-4090", dtype="bf16").totals["context"]
    assert archcli.predict("llama-3.1-8b", "rtx-4090", free="15GiB").totals["verdict"] == "no"
    assert archcli.predict("llama-3.1-8b", "rtx-4090", free="20GiB").totals["verdict"] == "fits"


REFUSED = [
    ({"device": "rtx-4090", "free": "40GiB"}, "--free 40GiB: rtx-4090 has 23.5 GiB"),
    ({"device": "rtx-4090", "free": "20"}, "--free 20 has no unit"),
    ({"device": "rtx-4090", "free": "0GB"}, "--free 0GB is no memory"),
    ({"free": "20GiB"}, "--free is what a device has left"),
]


@every_row(("asked", "told"), REFUSED, ids=str)
def test_what_cannot_be_free_is_a_line(asked, told):
    with pytest.raises(ArchError, match=told):
        archcli.count_memory("gpt2", "serve", **asked)


def test_the_ram_of_this_machine_is_what_is_free_now(monkeypatch):
    """One socket of two cores, of 22 GiB that are free: no two processors, and no other memory."""
    monkeypatch.setattr(cuda_driver, "local_gpus", lambda *_: ())
    monkeypatch.setattr(machine, "available_memory", lambda *_: 22 * GIB)
    monkeypatch.setattr(machine, "total_memory", lambda *_: 31 * GIB)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(machine, "processor", lambda: "4 x Intel(R) Xeon(R) CPU @ 2.20GHz")
    assert budget.read_budget("local").free_bytes == 22 * GIB
    report = archcli.count_memory("gpt2", "serve", device="local")
    assert report.headline.startswith("Fits into 2 cores of Intel Xeon (22.0 GiB free of 31.0 GiB): ")
    assert archcli.fit("gpt2", "local").headline.startswith(
        "fits 2 cores of Intel Xeon (22.0 GiB free of 31.0 GiB) as "
    )
