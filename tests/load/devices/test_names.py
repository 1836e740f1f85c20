"""Names of devices as people type them, instances of clouds, and a device in one line."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.wings.serving.devices.budget import read_budget
from archcli.wings.serving.devices.datasheet import OF_LINE, devices, load_datasheet
from archcli.wings.serving.devices.instances import INSTANCES, _instances, counted, instance_of, ram_of
from archcli.wings.serving.devices.line import figures_of, is_line
from table import every_row, sampled_rows

TYPED = {
    "4090 laptop": (1, "rtx-4090-laptop"),
    "RTX 4090 Laptop GPU": (1, "rtx-4090-laptop"),
    "4090 mobile": (1, "rtx-4090-laptop"),
    "4090m": (1, "rtx-4090-laptop"),
    "5080 Laptop 16GB": (1, "rtx-5080-laptop"),
    "NVIDIA GeForce GTX 1660 Ti with Max-Q Design": (1, "gtx-1660-ti-max-q"),
    "RTX 5000 Ada Generation Laptop GPU": (1, "rtx-5000-ada-laptop"),
    "GTX 1080 Ti": (1, "gtx-1080-ti"),
    "4090D": (1, "rtx-4090-d"),
    "RTX 2070": (1, "rtx-2070"),
    "3060 8GB": (1, "rtx-3060-8gb"),
    "RTX 3060 laptop 6GB": (1, "rtx-3060-laptop"),
    "Titan RTX": (1, "titan-rtx"),
    "RTX Titan": (1, "titan-rtx"),
    "Quadro P5000": (1, "quadro-p5000"),
    "P5000": (1, "quadro-p5000"),
    "Quadro RTX 8000": (1, "quadro-rtx-8000"),
    "RTX 8000": (1, "quadro-rtx-8000"),
    "RTX PRO 4500 Blackwell": (1, "rtx-pro-4500"),
    "A2000 12GB": (1, "rtx-a2000:12gb"),
    "Tesla P40": (1, "p40"),
    "M40 24GB": (1, "m40:24gb"),
    "V100 PCIe 32GB": (1, "v100-pcie-32gb"),
    "2x Tesla K80": (2, "k80"),
    "RX 6700 XT": (1, "rx-6700-xt"),
    "6800xt": (1, "rx-6800-xt"),
    "7900 XT": (1, "rx-7900-xt"),
    "9060 XT 16GB": (1, "rx-9060-xt:16gb"),
    "Radeon VII": (1, "radeon-vii"),
    "Vega 64": (1, "rx-vega-64"),
    "RX 580 8GB": (1, "rx-580:8gb"),
    "Radeon PRO W6800": (1, "w6800"),
    "R9700": (1, "ai-pro-r9700"),
    "MI300A": (1, "mi300a"),
    "Arc A770 16GB": (1, "arc-a770:16gb"),
    "Arc Pro B60": (1, "arc-pro-b60"),
    "780M": (1, "radeon-780m"),
    "Radeon 890M 64GB": (1, "radeon-890m:64gb"),
    "Iris Xe": (1, "iris-xe-96eu"),
    "Arc 140V": (1, "arc-140v"),
    "Xavier NX": (1, "jetson-xavier-nx"),
    "AGX Xavier 32GB": (1, "jetson-agx-xavier:32gb"),
    "Orin Nano 8GB": (1, "jetson-orin-nano-8gb"),
    "EPYC 9654": (1, "epyc-9654"),
    "AMD EPYC 9654 96-Core Processor": (1, "epyc-9654"),
    "EPYC 7402P": (1, "epyc-7402"),
    "Intel(R) Xeon(R) Platinum 8480+": (1, "xeon-8480"),
    "Xeon Gold 6430": (1, "xeon-6430"),
    "Ryzen 9 7950X3D": (1, "ryzen-9-7950x3d"),
    "ryzen 7950x": (1, "ryzen-9-7950x"),
    "i9-13900K": (1, "core-i9-13900k"),
    "13900KF": (1, "core-i9-13900k"),
    "Core Ultra 9 285K": (1, "core-ultra-9-285k"),
    "7995WX": (1, "threadripper-pro-7995wx"),
    "Gaudi 2": (1, "gaudi2"),
    "TPU v7": (1, "tpu-v7"),
    "trn2": (1, "trainium2"),
    "n150d": (1, "n150"),
    "H200 NVL": (1, "h200-nvl"),
    "GH200 144GB": (1, "gh200-144gb"),
    "p5.48xlarge": (8, "h100-sxm"),
    "a3-highgpu-8g": (8, "h100-sxm"),
    "a2-ultragpu-8g": (8, "a100-sxm-80gb"),
    "ND_H100_v5": (8, "h100-sxm"),
    "Standard_ND96isr_H100_v5": (8, "h100-sxm"),
    "gpu_1x_gh200": (1, "gh200-96gb"),
    "BM.GPU.H100.8": (8, "h100-sxm"),
}


@sampled_rows("text", TYPED, 4)
def test_a_name_is_read_as_people_type_it(text):
    asked = read_budget(text)
    assert (asked.n_devices, asked.name) == TYPED[text]
    assert asked.datasheet is not None


@every_row("text", ["4090 laptop", "4090 48GB", "g6e.xlarge", "Xavier NX", "24GB, 1008GB/s, 165TFLOP/s"])
def test_four_commands_read_a_name_alike(text):
    """fit, memory, predict and devices: the same device, the same memory."""
    model, asked = archcli.load("qwen3-0.6b"), read_budget(text)
    answers = (
        archcli.memory(model, device=text, phase="serve").inputs,
        archcli.fit(model, text).inputs,
        archcli.predict(model, text).inputs,
    )
    assert [(answer["device"], answer["n_devices"]) for answer in answers] == [
        (asked.name, asked.n_devices)
    ] * 3
    figures = {row["figure"]: row["value"] for row in archcli.devices(text).rows}
    assert figures["memory_bytes"] == asked.memory_bytes


def test_every_instance_is_of_a_known_device():
    known = _instances()
    assert len(known) > 150
    for name, instance in known.items():
        assert instance_of(name) == instance, f"{name} looks like no instance"
        assert instance.device in devices(), name
        assert instance.number in range(1, 17), name
        assert instance.ram_gib > 0, name
        assert instance.source, name
    assert INSTANCES not in {f"{name}.yaml" for name in devices()}


def test_an_instance_is_its_devices_and_its_ram():
    assert counted("3xg6e.12xlarge") == (12, "l40s")
    assert ram_of("Standard_NC24ads_A100_v4") == 220 << 30
    assert [ram_of(text) for text in ("8xh100-sxm", None, "g6e.moon")] == [None] * 3
    model = archcli.load("llama-3.1-70b")
    offload = {"phase": "serve", "engine": "llamacpp", "offload": "layers:60"}
    with pytest.raises(ArchError, match=r"takes 98\.\d GiB, and --ram is 32\.0 GiB"):
        archcli.memory(model, device="g6e.xlarge", **offload)
    assert archcli.memory(model, device="g6e.4xlarge", **offload).totals["fits"]


LINES = {
    "24GB, 1008GB/s, 165TFLOP/s": (24e9, 1008, {"bf16_tflops": 165}),
    "165 TFLOP/s; 1.008 TB/s, 24 GiB": (24 * 2**30, 1008, {"bf16_tflops": 165}),
    "24GB,1,008GB/s,fp16 165TFLOPS": (24e9, 1008, {"fp16_tflops": 165}),
    "80GB, 3.35TB/s, 989 TFLOP/s bf16, fp8 1.979 PFLOP/s, 1979 TOPS": (
        *(80e9, 3350),
        {"bf16_tflops": 989, "fp8_tflops": 1979, "int8_tops": 1979},
    ),
    "16GB of VRAM and 448GBps": (16e9, 448, {}),
    "12GB, 20TFLOP/s fp32, 40TFLOP/s": (12e9, None, {"fp32_tflops": 20, "bf16_tflops": 40}),
}


@every_row("text", LINES)
def test_a_line_states_a_device(text):
    memory, bandwidth, rates = LINES[text]
    figures = {"memory_bytes": memory, "bandwidth_gb_s": bandwidth, **rates}
    found = figures_of(text)
    assert is_line(text)
    assert found == pytest.approx({key: value for key, value in figures.items() if value is not None})
    assert {figure.source for figure in load_datasheet(text).figures.values()} == {OF_LINE}
    assert read_budget(f"2x {text}").total_bytes == 2 * memory


def test_a_line_is_a_limit_and_a_verdict():
    model, text = archcli.load("llama-3.1-8b"), "24GB, 1008GB/s, 165TFLOP/s"
    report = archcli.predict(model, text)
    assert report.totals["tokens_per_s"]["expected"] is None
    assert "at most" in report.headline
    assert text in report.headline or text in str(report.inputs)
    assert archcli.fit(model, text).totals["fits"]
    assert not archcli.fit(model, "4GB, 1008GB/s, 165TFLOP/s", dtype="bf16").totals["fits"]


def test_a_line_without_a_rate_has_the_limit_of_its_memory():
    """No share of a peak is told."""
    model = archcli.load("llama-3.1-8b")
    report = archcli.predict(model, "24GB, 1008GB/s")
    rated = archcli.predict(model, "24GB, 1008GB/s, 165TFLOP/s").totals["tokens_per_s"]["floor"]
    assert report.totals["tokens_per_s"]["floor"] == pytest.approx(rated, rel=0.01)
    assert report.totals["break_even"]["batch_size"] == {"floor": None, "expected": None}
    assert not [row for table in report.tables for row in table.records if row.get("what") == "MFU"]
    assert "no rate is stated, such as 165TFLOP/s: the limit is that of the memory alone" in report.notes
    with pytest.raises(ArchError, match="states no bandwidth, so that nothing can be timed on it"):
        archcli.predict(model, "24GB, 165TFLOP/s")


def test_names_are_no_lines():
    assert not [name for name in (*devices(), "24GB", "16 GB of VRAM", "M4 Max 128") if is_line(name)]
