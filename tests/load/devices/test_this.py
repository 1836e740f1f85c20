"""`archcli devices --this`: texts that drivers print, and the YAML of a device that they become."""

import json

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices.datasheet import load_datasheet, read_datasheet
from archcli.wings.serving.devices.drivers import DISPLAYS, NVIDIA_SMI, ROCM_SMI, SYSCTL, WIRED_LIMIT
from archcli.wings.serving.devices.this import this_machine

H100 = "NVIDIA H100 80GB HBM3, 81559, 551, 9.0, 700.00, 80000\n" * 8
UNKNOWN = "NVIDIA Titan Z9000, 24576, 400, 12.0, [N/A], 24000\n"
GB10 = "NVIDIA GB10, [N/A], [N/A], 12.1, [N/A], [N/A]\n"
MI300X = json.dumps(
    {
        "card0": {
            "VRAM Total Memory (B)": "206141652992",
            "Card Series": "AMD Instinct MI300X",
            "GFX Version": "gfx942",
        },
        "system": {"Driver version": "6.7.0"},
    }
)
M3_PRO = "machdep.cpu.brand_string: Apple M3 Pro\nhw.memsize: 38654705664\n"
GRAPHICS = json.dumps({"SPDisplaysDataType": [{"_name": "Apple M3 Pro", "sppci_cores": "14"}]})
CORE = """processor\t: 0
model name\t: AMD EPYC 7763 64-Core Processor
cpu MHz\t\t: 2450.000
siblings\t: 4
cpu cores\t: 2
flags\t\t: fpu sse2 avx2 fma
"""
MEMINFO = "MemTotal:       125829120 kB\nMemFree:        1000 kB\n"


def said(answers, tmp_path, cpuinfo="", meminfo=MEMINFO):
    """The device that these answers of drivers and these files of /proc describe, and the YAML's text."""
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    (tmp_path / "meminfo").write_text(meminfo)
    text = this_machine(lambda command: answers.get(command, ""), tmp_path)
    return read_datasheet(text, "this.yaml"), text


def test_a_gpu_of_the_list_has_its_rates_and_the_drivers_memory(tmp_path):
    device, text = said({NVIDIA_SMI: H100}, tmp_path)
    listed = load_datasheet("h100-sxm")
    assert device.figures["memory_bytes"][:2] == ((81559 - 551) * 2**20, "A")
    assert device.figures["bf16_tflops"] == listed.figures["bf16_tflops"]
    assert set(device.efficiency) == set(listed.efficiency)
    assert (device.vendor, device.architecture, device.link) == ("NVIDIA", "sm_90", "NVLink 4")
    assert text.startswith("# 8 of them: --device 8x./THIS.yaml\n")


def test_a_gpu_that_is_not_listed_says_what_its_datasheet_has_to_add(tmp_path):
    device, text = said({NVIDIA_SMI: UNKNOWN}, tmp_path)
    assert {key: figure.value for key, figure in device.figures.items()} == {
        "memory_bytes": (24576 - 400) * 2**20
    }
    assert (device.remark, device.architecture) == ("NVIDIA Titan Z9000", "sm_120")
    assert text.startswith("# its datasheet has to add bandwidth_gb_s, bf16_tflops\n")


def test_a_card_of_several_memories_is_that_of_the_drivers(tmp_path):
    device, _ = said({NVIDIA_SMI: "NVIDIA GeForce RTX 4060 Ti, 8188, 215, 8.9, 160.00, 7500\n"}, tmp_path)
    assert device.figures["memory_bytes"].value == (8188 - 215) * 2**20
    assert device.figures["memory_gb"].value == 8


def test_memory_that_the_processor_shares_is_that_of_proc(tmp_path):
    device, _ = said({NVIDIA_SMI: GB10}, tmp_path)
    assert device.figures["memory_bytes"][:2] == (125829120 * 1024, "A")
    assert device.figures["bandwidth_gb_s"].value == 273


def test_a_card_of_amds(tmp_path):
    device, text = said({ROCM_SMI: MI300X}, tmp_path)
    assert device.figures["memory_bytes"] == (206141652992, "A", "rocm-smi: VRAM Total Memory")
    assert device.figures["bandwidth_gb_s"].value == 5300
    assert device.architecture == "gfx942"
    assert "#" not in text


def test_a_mac_is_the_chip_of_the_list_with_its_cores_and_memory(tmp_path):
    device, _ = said({SYSCTL: M3_PRO, DISPLAYS: GRAPHICS}, tmp_path)
    assert device.figures == load_datasheet("m3-pro-14-core:36gb").figures
    device, _ = said({SYSCTL: M3_PRO.replace("M3 Pro", "M9 Pro"), DISPLAYS: GRAPHICS}, tmp_path)
    assert device.figures["memory_bytes"][:2] == (27 * 2**30, "C")


def test_metals_limit_goes_before_the_memory_of_the_list(tmp_path):
    answers = {SYSCTL: M3_PRO, DISPLAYS: GRAPHICS, WIRED_LIMIT: "iogpu.wired_limit_mb: 32768\n"}
    device, _ = said(answers, tmp_path)
    assert device.figures["memory_bytes"] == (32 * 2**30, "A", "sysctl: iogpu.wired_limit_mb")
    assert device.figures["memory_gb"].value == 36


def test_without_a_driver_it_is_the_processor(tmp_path):
    device, text = said({}, tmp_path, CORE + CORE.replace("0", "1", 1) + CORE * 2)
    assert (device.kind, device.remark) == ("cpu", "AMD EPYC 7763 64-Core Processor")
    assert device.figures["memory_bytes"].value == 120 * 2**30
    # 4 processors of 2 threads a core, 32 FLOPs in each cycle of 2.45 GHz
    assert device.figures["fp32_tflops"][:2] == (pytest.approx(2 * 32 * 2.45e9 / 1e12, abs=0.005), "C")
    assert text.startswith("# its datasheet has to add bandwidth_gb_s, bf16_tflops\n")


DAMAGED = {
    "empty": {},
    "an error": {NVIDIA_SMI: "NVIDIA-SMI has failed because it could not communicate with the driver\n"},
    "no JSON": {ROCM_SMI: "ERROR: no AMD GPUs"},
    "JSON of no card": {ROCM_SMI: "{}"},
    "a list": {ROCM_SMI: "[1]"},
    "an Intel Mac": {SYSCTL: "machdep.cpu.brand_string: Intel(R) Core(TM) i9\nhw.memsize: 17179869184\n"},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_machine_of_which_nothing_is_said_ends_with_a_line(name, tmp_path):
    with pytest.raises(ArchError, match="neither nvidia-smi, rocm-smi, sysctl nor /proc says"):
        said(DAMAGED[name], tmp_path, meminfo="")
