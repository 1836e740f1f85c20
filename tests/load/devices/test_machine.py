"""This machine's GPUs and RAM, from texts written after published outputs of drivers (printed/)."""

import os
import stat
import time
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices import drivers
from archcli.wings.serving.devices.budget import Budget, read_budget
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.drivers import (
    DISPLAYS,
    NVIDIA_SMI,
    ROCM_SMI,
    SYSCTL,
    VM_STAT,
    WIRED_LIMIT,
    within,
)
from archcli.wings.serving.devices.this import OF_THIS_DRIVER, MachineDevice, budget_of, machine
from archcli.wings.serving.recorded.cuda_driver import LocalGpu
from table import every_row

PRINTED = Path(__file__).parent / "printed"
M3_PRO = "machdep.cpu.brand_string: Apple M3 Pro\nhw.memsize: 38654705664\n"
MEMINFO = "MemTotal:       125829120 kB\nMemFree:        1000 kB\nMemAvailable:   62914560 kB\n"
CPUINFO = "processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"
MIB = 2**20


@pytest.fixture(autouse=True)
def no_driver(monkeypatch):
    """No GPU but those of the texts."""
    monkeypatch.setattr(drivers, "local_gpus", tuple)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def printed(name):
    return (PRINTED / name).read_text()


def found(tmp_path, answers, meminfo=MEMINFO, cpuinfo=CPUINFO):
    """The machine that these programs and these files of /proc describe."""
    (tmp_path / "meminfo").write_text(meminfo)
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    return machine(lambda command: answers.get(command, ""), tmp_path)


def nvidia(*lines):
    return {NVIDIA_SMI: "".join(f"{line}\n" for line in lines)}


def listed(name, count, size, free, driver_name):
    return MachineDevice(name, count, size, free, driver_name, is_listed=True)


KINDS = {
    "two kinds": (
        {NVIDIA_SMI: printed("nvidia-smi-two-kinds.csv")},
        [
            listed("rtx-3090", 2, (24576 - 318) * MIB, 20119 * MIB, "NVIDIA GeForce RTX 3090"),
            listed("rtx-4060-ti:16gb", 1, (16380 - 243) * MIB, 15901 * MIB, "NVIDIA GeForce RTX 4060 Ti"),
        ],
    ),
    "no memory of its own": (
        {NVIDIA_SMI: printed("nvidia-smi-dgx-spark.csv")},
        [listed("dgx-spark", 1, 120 * 2**30, None, "NVIDIA GB10")],
    ),
    "AMD beside a screen's GPU": (
        {ROCM_SMI: printed("rocm-smi-rx-7900-xtx.json")},
        [listed("rx-7900-xtx", 1, 25753026560, 25753026560 - 1073741824, "Radeon RX 7900 XTX")],
    ),
    "two of an older ROCm": (
        {ROCM_SMI: printed("rocm-smi-mi100.json")},
        [listed("mi100", 2, 34342961152, 34342961152 - 9007032832, "Arcturus GL-XL [AMD Instinct MI100]")],
    ),
    "a name of several cards": (
        {ROCM_SMI: printed("rocm-smi-navi-31.json")},
        [
            listed(
                "rx-7900-xtx",
                1,
                25753026560,
                25753026560 - 27856896,
                "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]",
            )
        ],
    ),
    "a processor's GPU": (
        {ROCM_SMI: printed("rocm-smi-strix-halo.json")},
        [
            listed(
                "ryzen-ai-max-395:128gb",
                1,
                103079215104,
                100000000000,
                "Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]",
            )
        ],
    ),
    "both": (
        {NVIDIA_SMI: printed("nvidia-smi-dgx-spark.csv"), ROCM_SMI: printed("rocm-smi-navi-31.json")},
        ["dgx-spark", "rx-7900-xtx"],
    ),
    "a screen's GPU alone": (
        {ROCM_SMI: '{"card0": {"VRAM Total Memory (B)": "67108864", "Card Series": "Raphael"}}'},
        [],
    ),
    "not listed": (
        nvidia("NVIDIA Titan Z9000, 24576, 400, 12.0, [N/A], 24000"),
        [
            MachineDevice(
                "NVIDIA Titan Z9000", 1, 24176 * MIB, 24000 * MIB, "NVIDIA Titan Z9000", is_listed=False
            )
        ],
    ),
    "no word of memory": (
        {ROCM_SMI: '{"card0": {"VRAM Total Memory (B)": "N/A", "Card Series": "N/A"}}'},
        [],
    ),
    "a changed memory": (
        nvidia("NVIDIA GeForce RTX 2080 Ti, 22528, 228, 7.5, 250.00, 22000"),
        [listed("rtx-2080-ti", 1, 22300 * MIB, 22000 * MIB, "NVIDIA GeForce RTX 2080 Ti")],
    ),
    **{
        f"no usable memory: {row}": (nvidia(f"NVIDIA GeForce RTX 4090, {row}, 8.9, 450, 3"), ["rtx-4090"])
        for row in ("-5, 0", "0, 0", "24564, 99999", "24564, 24564")
    },
    "an XT of 20 GB": (
        {ROCM_SMI: printed("rocm-smi-navi-31.json").replace("25753026560", "21458059264")},
        ["rx-7900-xt"],
    ),
}


@pytest.mark.long
@every_row(("answers", "expected"), KINDS.values(), ids=KINDS)
def test_the_gpus_are_named_as_the_list_names_them(answers, expected, tmp_path):
    devices = list(found(tmp_path, answers).devices)
    assert [device.name for device in devices] == [getattr(one, "name", one) for one in expected]
    assert all(device == one for device, one in zip(devices, expected, strict=True) if one != device.name)
    for device in devices:
        if device.is_listed:
            assert read_budget(device.text).n_devices == device.n_devices


def test_a_budget_has_the_drivers_memory_and_the_lists_rates(tmp_path):
    changed, titan = (
        found(tmp_path, nvidia(line)).devices[0]
        for line in (
            "NVIDIA GeForce RTX 2080 Ti, 22528, 228, 7.5, 250.00, 22000",
            "NVIDIA Titan Z9000, 24576, 400, 12.0, [N/A], 24000",
        )
    )
    budget = budget_of(changed)
    assert (budget.memory_bytes, budget.certainty, budget.source) == (22300 * MIB, "A", OF_THIS_DRIVER)
    assert budget.datasheet == load_datasheet("rtx-2080-ti")
    assert budget_of(titan) == Budget("NVIDIA Titan Z9000", 1, 24176 * MIB, "A", OF_THIS_DRIVER)
    (mac,) = found(tmp_path, MAC, meminfo="").devices
    assert budget_of(mac) == read_budget("m3-pro:36gb")
    with pytest.raises(
        ArchError, match="the driver does not say what memory 'NVIDIA Titan Z9000' has; state it"
    ):
        budget_of(titan._replace(memory_bytes=None))


DRIVERS = {
    "NVIDIA H100 80GB HBM3, 81559": "h100-sxm",
    "NVIDIA H100 PCIe, 81559": "h100-pcie",
    "NVIDIA H100 NVL, 95830": "h100-nvl",
    "NVIDIA H200, 143771": "h200-sxm",
    "NVIDIA B200, 183359": "b200-sxm",
    "NVIDIA A100-SXM4-40GB, 40960": "a100-sxm-40gb",
    "NVIDIA A100-SXM4-80GB, 81920": "a100-sxm-80gb",
    "NVIDIA A100 80GB PCIe, 81920": "a100-pcie-80gb",
    "NVIDIA A10G, 23028": "a10g",
    "NVIDIA L4, 23034": "l4",
    "NVIDIA L40S, 46068": "l40s",
    "Tesla T4, 15360": "t4",
    "Tesla V100-SXM2-16GB, 16384": "v100-sxm-16gb",
    "Tesla V100-SXM2-32GB, 32768": "v100-sxm-32gb",
    "NVIDIA GeForce RTX 3060, 12288": "rtx-3060",
    "NVIDIA GeForce RTX 3080, 10240": "rtx-3080",
    "NVIDIA GeForce RTX 3080, 12288": "rtx-3080-12gb",
    "NVIDIA GeForce RTX 4060 Ti, 8188": "rtx-4060-ti:8gb",
    "NVIDIA GeForce RTX 4060 Ti, 16380": "rtx-4060-ti:16gb",
    "NVIDIA GeForce RTX 4090, 24564": "rtx-4090",
    "NVIDIA GeForce RTX 5090, 32607": "rtx-5090",
    "NVIDIA RTX 6000 Ada Generation, 49140": "rtx-6000-ada",
    "NVIDIA RTX A6000, 49140": "rtx-a6000",
    "NVIDIA RTX A2000 12GB, 12282": "rtx-a2000:12gb",
    "NVIDIA RTX A2000, 6138": "rtx-a2000:6gb",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 97887": "rtx-pro-6000-workstation",
    "NVIDIA GeForce RTX 4090 Laptop GPU, 16376": "rtx-4090-laptop",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb, 9984": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
}


@every_row("line", DRIVERS)
def test_a_drivers_name_and_memory_are_one_device(line, tmp_path):
    (device,) = found(tmp_path, nvidia(f"{line}, 300, 8.9, 300.00, 1000")).devices
    assert device.name == DRIVERS[line]


MAC = {SYSCTL: M3_PRO, DISPLAYS: printed("system-profiler-m3-pro.json"), VM_STAT: printed("vm-stat.txt")}


def test_a_mac_has_what_metal_leaves_to_its_gpu(tmp_path):
    mac = found(tmp_path, MAC, meminfo="", cpuinfo="")
    size = load_datasheet("m3-pro:36gb").figures["memory_bytes"].value
    assert mac.devices == (listed("m3-pro:36gb", 1, size, None, "Apple M3 Pro"),)
    assert (mac.ram_bytes, mac.processor) == (36 * 2**30, "Apple M3 Pro")
    assert mac.ram_free_bytes == (38514 + 774358 + 4621) * 16384


def test_a_mac_with_a_limit_of_its_owner_has_that(tmp_path):
    for limit, size in (("32000", 32000 * MIB), ("0", 30150672384)):
        mac = found(tmp_path, MAC | {WIRED_LIMIT: f"iogpu.wired_limit_mb: {limit}\n"}, meminfo="")
        assert [device.memory_bytes for device in mac.devices] == [size]


@every_row("text", ["", "{}", "[]", '{"SPDisplaysDataType": 1}', '{"SPDisplaysDataType": [1]}', "{"])
def test_a_mac_whose_cores_are_not_told_is_its_largest_chip(text, tmp_path):
    mac = found(tmp_path, MAC | {DISPLAYS: text}, meminfo="")
    assert [device.name for device in mac.devices] == ["m3-pro:36gb"]


def test_a_machine_without_a_gpu_has_its_ram(tmp_path):
    assert found(tmp_path, {}) == ((), 120 * 2**30, 60 * 2**30, "AMD EPYC 7763 64-Core Processor")
    assert found(tmp_path, {}, meminfo="", cpuinfo="") == ((), None, None, "")


NOTHING = {
    NVIDIA_SMI: [
        "No devices were found\n",
        "NVIDIA-SMI has failed, because it could not\n",
        ", , , \n",
        "\0",
    ],
    ROCM_SMI: ["ERROR: no AMD GPUs", "{}", "[1]", '{"card0": 1}', '{"card0": []}', "{" * 10_000],
    SYSCTL: ["machdep.cpu.brand_string: Intel(R) Core(TM) i9\nhw.memsize: 17179869184\n", "hw.memsize: x"],
    VM_STAT: ["", "page size of 0 bytes"],
}


@every_row(("command", "text"), [(command, text) for command, texts in NOTHING.items() for text in texts])
def test_what_a_driver_says_in_distress_is_no_device(command, text, tmp_path):
    assert found(tmp_path, {command: text}).devices == ()
    assert found(tmp_path, {command: text}, meminfo="").devices == ()


GPUS = (LocalGpu("NVIDIA H200", 150_109_945_856, "sm_90"),) * 2


def test_where_gpus_are_hidden_the_cuda_driver_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(drivers, "local_gpus", lambda: GPUS)
    expected = (listed("h200-sxm", 2, 150_109_945_856, None, "NVIDIA H200"),)
    assert found(tmp_path, {}).devices == expected
    eight = nvidia(*["NVIDIA H200, 143771, 300, 9.0, 700.00, 140000"] * 8)
    assert [device.text for device in found(tmp_path, eight).devices] == ["8xh200-sxm"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert found(tmp_path, eight).devices == expected


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_a_driver_that_hangs_is_not_waited_for(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    start = time.monotonic()
    assert within(0.2)([str(program)]) == ""
    assert time.monotonic() - start < 30
    assert within(0.2)([str(tmp_path / "missing")]) == ""


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_what_a_driver_that_hangs_has_started_ends_with_it(tmp_path):
    program, started = tmp_path / "nvidia-smi", tmp_path / "started"
    program.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {started}\nwait\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert within(1.0)([str(program)]) == ""
    number = int(started.read_text())
    for _ in range(50):
        state = Path(f"/proc/{number}/stat")
        # an orphan that nobody waits for stays as a zombie
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("it goes on")
