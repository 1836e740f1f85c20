"""The memory there is: devices as people write them, this machine, amounts; every mistake in one line."""

import time

import pytest

from archcli.errors import ArchError
from archcli.wings.serving.devices.budget import OF_DRIVER, OF_SYSTEM, STATED, device_note, read_budget
from archcli.wings.serving.devices.datasheet import devices, load_datasheet
from archcli.wings.serving.devices.names import ALIASES, KINDS_OF_TORCH, USUAL, _key, _name_parts, resolve
from archcli.wings.serving.recorded import cuda_driver, machine
from archcli.wings.serving.recorded.cuda_driver import LocalGpu
from table import every_row, sampled_rows

H100 = 84_932_978_278
WRITTEN = {
    "h100-sxm": (1, "h100-sxm"),
    "8xh100-sxm": (8, "h100-sxm"),
    "8×h100-sxm": (8, "h100-sxm"),
    "8*h100-sxm": (8, "h100-sxm"),
    "8 x H100-SXM": (8, "h100-sxm"),
    " 8Xh100_sxm ": (8, "h100-sxm"),
    "2xh100_80gb": (2, "h100-sxm"),
    "h100-80gb": (1, "h100-sxm"),
    "A100_80GB": (1, "a100-sxm-80gb"),
    "a100_40gb": (1, "a100-sxm-40gb"),
    "NVIDIA H200": (1, "h200-sxm"),
    "NVIDIA GeForce RTX 4090": (1, "rtx-4090"),
    "1,024xrtx4090": (1024, "rtx-4090"),
    "1_000_000xl4": (1_000_000, "l4"),
    "RTX 3090 Ti": (1, "rtx-3090-ti"),
    "3090ti": (1, "rtx-3090-ti"),
    "2x4090": (2, "rtx-4090"),
    "7900 XTX": (1, "rx-7900-xtx"),
    "AMD Radeon RX 7900 XTX": (1, "rx-7900-xtx"),
    "NVIDIA A100-SXM4-80GB": (1, "a100-sxm-80gb"),
    "NVIDIA H100 80GB HBM3": (1, "h100-sxm"),
    "Tesla V100-SXM2-16GB": (1, "v100-sxm-16gb"),
    "NVIDIA RTX 6000 Ada Generation": (1, "rtx-6000-ada"),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": (1, "rtx-pro-6000-workstation"),
    "NVIDIA GB10": (1, "dgx-spark"),
    "RTX 3080 12 GB": (1, "rtx-3080-12gb"),
    "4060 Ti 8GB": (1, "rtx-4060-ti:8gb"),
    "M3 Pro 36GB": (1, "m3-pro:36gb"),
    "m3-pro:18gb": (1, "m3-pro:18gb"),
    "Apple M3 Max": (1, "m3-max"),
    "M3 Max (30-core GPU)": (1, "m3-max-30-core"),
    "m3-max-40-core": (1, "m3-max"),
    "rtx-4090:24gb": (1, "rtx-4090"),
    "4090": (1, "rtx-4090"),
    "RTX 4090": (1, "rtx-4090"),
    "rtx3090": (1, "rtx-3090"),
    "2x RTX 3090": (2, "rtx-3090"),
    "dual 3090": (2, "rtx-3090"),
    "8 H100": (8, "h100-sxm"),
    "2 3090": (2, "rtx-3090"),
    "4 RTX 4090": (4, "rtx-4090"),
    "80 GB A100": (1, "a100-sxm-80gb"),
    "16 inch MacBook Pro M4 Max": (1, "m4-max"),
    "2 3090s": (2, "rtx-3090"),
    "two RTX 3090s": (2, "rtx-3090"),
    "Quad A6000": (4, "rtx-a6000"),
    "4 L40S": (4, "l40s"),
    "8 V100s 32GB": (8, "v100-sxm-32gb"),
    "RTX 3090 (24GB)": (1, "rtx-3090"),
    "RTX 3090 24 GB VRAM": (1, "rtx-3090"),
    "3090 24G": (1, "rtx-3090"),
    "a100 80gb": (1, "a100-sxm-80gb"),
    "a100 80": (1, "a100-sxm-80gb"),
    "A100-40": (1, "a100-sxm-40gb"),
    "80GB A100": (1, "a100-sxm-80gb"),
    "NVIDIA A100 80GB PCIe": (1, "a100-pcie-80gb"),
    "H100 PCIe": (1, "h100-pcie"),
    "h100 nvl": (1, "h100-nvl"),
    "H100 SXM5 80GB": (1, "h100-sxm"),
    "H200 141GB": (1, "h200-sxm"),
    "GH200": (1, "gh200-96gb"),
    "v100 32gb": (1, "v100-sxm-32gb"),
    "A10G": (1, "a10g"),
    "2x a10g": (2, "a10g"),
    "A6000": (1, "rtx-a6000"),
    "A6000 48GB": (1, "rtx-a6000"),
    "GeForce RTX 4060 Ti 16GB": (1, "rtx-4060-ti:16gb"),
    "rtx4060ti 16g": (1, "rtx-4060-ti:16gb"),
    "4070 Ti Super": (1, "rtx-4070-ti-super"),
    "RTX 3080 10GB": (1, "rtx-3080"),
    "3080 12gb": (1, "rtx-3080-12gb"),
    "rtx5090 32GB": (1, "rtx-5090"),
    "7900xtx": (1, "rx-7900-xtx"),
    "2x 7900 XTX": (2, "rx-7900-xtx"),
    "MI300X 192GB": (1, "mi300x"),
    "MI50 32GB": (1, "mi50:32gb"),
    "Intel Arc B580": (1, "arc-b580"),
    "Ryzen AI Max+ 395": (1, "ryzen-ai-max-395"),
    "AI Max 395 128GB": (1, "ryzen-ai-max-395:128gb"),
    "Strix Halo 128GB": (1, "ryzen-ai-max-395:128gb"),
    "Framework Desktop 128GB": (1, "ryzen-ai-max-395:128gb"),
    "DGX Spark": (1, "dgx-spark"),
    "M3Max 128GB": (1, "m3-max:128gb"),
    "M4 Max 128": (1, "m4-max:128gb"),
    "M1 Max 64": (1, "m1-max:64gb"),
    "36GB M3 Pro": (1, "m3-pro:36gb"),
    "M3 Pro 36 GB unified memory": (1, "m3-pro:36gb"),
    "MacBook Pro M3 Max 64GB": (1, "m3-max:64gb"),
    "MacBook Pro 16-inch M3 Max 48GB": (1, "m3-max:48gb"),
    "M3 Max MacBook Pro": (1, "m3-max"),
    "M2 MacBook Air 8GB": (1, "m2:8gb"),
    "Mac mini M4 Pro 64 GB": (1, "m4-pro:64gb"),
    "Mac Studio M2 Ultra 192GB": (1, "m2-ultra:192gb"),
    "iMac M1 16gb": (1, "m1:16gb"),
    # the largest M3 Max is not sold with 36 GB, that of 30 cores is
    "M3 Max 36GB": (1, "m3-max-30-core:36gb"),
}


@sampled_rows("text", WRITTEN, 4)
def test_a_device_is_read_as_people_write_it(text):
    count, name = WRITTEN[text]
    memory = load_datasheet(name).figures["memory_bytes"]
    asked = read_budget(text)
    assert (asked.n_devices, asked.name) == (count, name)
    assert (asked.memory_bytes, asked.certainty, asked.source) == memory
    assert asked.total_bytes == count * memory.value


# (text, count, device, memory in GB of its label, how its note begins)
USUALLY = [
    ("2xa100", 2, "a100-sxm-80gb", "a100 is taken as a100-sxm-80gb, not a100-pcie-40gb, "),
    ("H100", 1, "h100-sxm", "H100 is taken as h100-sxm, not h100-nvl, h100-pcie or h100-sxm-96gb"),
    ("two H100s", 2, "h100-sxm", "H100s is taken as h100-sxm, not "),
    ("v100", 1, "v100-sxm-16gb", "v100 is taken as v100-sxm-16gb, not v100-pcie-16gb, v100-pcie-32gb or"),
    (
        "RTX 6000",
        1,
        "quadro-rtx-6000",
        "RTX 6000 is taken as quadro-rtx-6000, not rtx-6000-ada, rtx-pro-6000-",
    ),
    ("GTX 1060", 1, "gtx-1060-6gb", "GTX 1060 is taken as gtx-1060-6gb, not gtx-1060-3gb, "),
    ("Orin NX", 1, "jetson-orin-nx-16gb", "Orin NX is taken as jetson-orin-nx-16gb, not jetson-orin-nx-8gb"),
    ("Gaudi", 1, "gaudi3", "Gaudi is taken as gaudi3"),
    ("4090 48GB", 1, "rtx-4090:48gb", "rtx-4090 is not sold with 48 GB: a card whose memory was changed, "),
    ("2x 2080 Ti 22GB", 2, "rtx-2080-ti:22gb", "rtx-2080-ti is not sold with 22 GB: "),
    ("3080 20GB", 1, "rtx-3080:20gb", "rtx-3080 is not sold with 20 GB: "),
    ("RX 580 16GB", 1, "rx-580:16gb", "rx-580 is not sold with 16 GB: "),
    ("RX 580 4GB", 1, "rx-580:4gb", ""),
    (
        "EPYC 9654",
        1,
        "epyc-9654",
        "epyc-9654 is taken with 6,144 GB, the most that it takes: epyc-9654:64gb has",
    ),
    ("EPYC 9654 768GB", 1, "epyc-9654:768gb", ""),
    ("g6e.xlarge", 1, "l40s", "g6e.xlarge of AWS is 1 x l40s with 32 GiB of RAM"),
    ("2xg6e.12xlarge", 8, "l40s", "g6e.12xlarge of AWS is 4 x l40s with 384 GiB of RAM"),
    ("24GB, 1008GB/s, 165TFLOP/s", 1, "24GB, 1008GB/s, 165TFLOP/s", ""),
    ("rtx pro 6000", 1, "rtx-pro-6000-workstation", "rtx pro 6000 is taken as rtx-pro-6000-workstation, not"),
    ("rtx pro 6000 96gb", 1, "rtx-pro-6000-workstation", "rtx pro 6000 96gb is taken as "),
    ("AGX Orin", 1, "jetson-orin-64gb", "AGX Orin is taken as jetson-orin-64gb, not jetson-orin-32gb"),
    ("a100 80gb", 1, "a100-sxm-80gb", ""),
    ("4xl40s", 4, "l40s", ""),
    ("m3-max", 1, "m3-max", "m3-max is sold with 48, 64 or 128 GB, of which the largest is taken"),
    ("2x4060 ti", 2, "rtx-4060-ti", "rtx-4060-ti is sold with 8 or 16 GB, of which the largest is taken"),
    ("m3 max 64gb", 1, "m3-max:64gb", ""),
    ("24GB", 1, "24GB", "24GB is a memory alone: "),
    ("16 GB VRAM", 1, "16 GB", "16 GB VRAM is a memory alone: "),
    ("2x24GB of VRAM", 2, "24GB", "24GB of VRAM is a memory alone: "),
    ("2x16 GiB", 2, "16 GiB", "16 GiB is a memory alone: "),
]


@every_row("text, count, device, note", USUALLY)
def test_a_name_of_several_devices_is_read_as_the_usual_one_with_a_note(text, count, device, note):
    asked, said = read_budget(text), device_note(text)
    assert (asked.n_devices, asked.name, said[: len(note)]) == (count, device, note)
    assert bool(said) == bool(note)


def test_names_that_are_none_have_no_note():
    assert [device_note(name) for name in ("warp-drive", "./mine.yaml", "local", "8xlocal")] == [""] * 4


def test_every_usual_device_is_one_of_several():
    for name, device in USUAL.items():
        named = resolve(name, devices())
        assert (named.name, name in named.note, device in devices()) == (device, True, True)


def test_a_memory_is_a_device_whose_speed_is_not_known():
    assert (read_budget("24GB").memory_bytes, read_budget("24GB").is_stated) == (24 * 10**9, True)
    assert read_budget("2x16GiB").total_bytes == 2 * 16 * 2**30
    assert not read_budget("5070 Ti").is_stated


def test_a_budget_holds_what_the_datasheet_states():
    asked = read_budget("8xh100-sxm")
    assert (asked.memory_bytes, asked.certainty) == (H100, "B")
    assert (asked.kind, asked.architecture, asked.link) == ("gpu", "sm_90", "NVLink 4")
    assert asked.datasheet == load_datasheet("h100-sxm")
    assert read_budget("8xH100_80gb") == asked


def test_every_alias_names_a_device():
    assert set(ALIASES.values()) <= set(devices())
    assert not set(ALIASES) & set(devices())
    assert {name for near in KINDS_OF_TORCH.values() for name in near} <= set(devices())
    assert {resolve(alias, devices()).name for alias in ALIASES} == set(ALIASES.values())


def test_no_two_devices_are_spelled_alike():
    keys = {_key(_name_parts(name)) for name in (*devices(), *ALIASES)}
    assert len(keys) == len(devices()) + len(ALIASES)


def test_ones_own_file_is_a_device(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("name: mine\nvendor: me\nkind: gpu\nsource: a leaflet\ncertainty: B\nmemory_gb: 24\n")
    for text, count in ((f"{path}", 1), (f"8x{path}", 8), (f"8 × {path}", 8)):
        asked = read_budget(text)
        assert (asked.name, asked.n_devices, asked.memory_bytes) == ("mine", count, 24 * 2**30)
    path.write_text("name: mine\nvendor: me\nkind: cpu\nsource: a leaflet\ncertainty: B\n")
    with pytest.raises(ArchError, match=r"my\.yaml: device 'mine' states no memory; add memory_bytes or"):
        read_budget(f"8x{path}")


AMOUNTS = {
    "80GB": (1, 80 * 10**9),
    "80GiB": (1, 80 * 2**30),
    "80 gib": (1, 80 * 2**30),
    "80G": (1, 80 * 10**9),
    "1.5TiB": (1, 3 * 2**39),
    "8e9": (1, 8 * 10**9),
    "85899345920": (1, 80 * 2**30),
    "8x80GiB": (8, 80 * 2**30),
    "2 × 24GB": (2, 24 * 10**9),
    80 * 2**30: (1, 80 * 2**30),
}


@every_row("amount", AMOUNTS)
def test_an_amount_is_of_one_device(amount):
    asked = read_budget(memory=amount)
    assert (asked.n_devices, asked.memory_bytes) == AMOUNTS[amount]
    assert (asked.certainty, asked.source, asked.architecture) == ("A", STATED, "")


def test_nothing_asked_is_no_budget():
    assert read_budget() is None


TORCH = "is a kind of device: its memory is not known; `local` is this machine's own, or name one such as "
MISTAKES = {
    "rtx 4070 ti supr": "no device 'rtx 4070 ti supr'; did you mean rtx-4070-ti-super",
    "m3-pro:48gb": "device 'm3-pro' has no memory of 48 GB; it is sold with 18 GB or 36 GB",
    "4080s": "no device '4080s'; did you mean rtx-4080 or rtx-4080-super?",
    "5070 supr": "no device '5070 supr'; did you mean rtx-5070 or rtx-5070-ti?",
    "4090 x2": "no device '4090 x2'; did you mean 2x4090?",
    "RTX 3090 Laptop GPU": "no device 'RTX 3090 Laptop GPU'; did you mean rtx-3090 or rtx-3090-ti?",
    "MacBook Pro": "no device 'MacBook Pro'; `archcli devices` lists them",
    "two": "no device 'two'; `archcli devices` lists them",
    "rtx-4090:96gb": "device 'rtx-4090' has no memory of 96 GB; it is sold with 24 GB",
    "m3-max:256gb": "device 'm3-max' has no memory of 256 GB; it is sold with 48 GB, 64 GB or 128 GB",
    "h100:160gb": "device 'h100-sxm' has no memory of 160 GB; it is sold with 80 GB",
    "epyc 9654 8192gb": "device 'epyc-9654' has no memory of 8192 GB",
    "1008GB/s, 165TFLOP/s": "'1008GB/s, 165TFLOP/s' states no memory; such as '24GB, 1008GB/s, 165TFLOP/s'",
    "24GB, 1008GB/s, fast": "'fast' in '24GB, 1008GB/s, fast' is no figure of a device",
    "24GB, 24GB, 1TB/s": "'24GB, 24GB, 1TB/s' says memory_bytes twice",
    "0GB, 1008GB/s": "0GB is nothing; such as '24GB, 1008GB/s, 165TFLOP/s'",
    "g9.xlarge": "no device 'g9.xlarge'; `archcli devices` lists them",
    "h100-smx": "no device 'h100-smx'; did you mean h100-sxm",
    "warp-drive": "no device 'warp-drive'; `archcli devices` lists them, and `archcli devices --this`",
    "RTX 5090 and RTX 4090": "one kind is asked about at a time; such as 2xrtx-5090, or each alone",
    "3090+4090": "'3090+4090' names 2 kinds of device",
    "rtx-409": "no device 'rtx-409'; did you mean rtx-4090 or rtx-4090-d?",
    "gaudy3": "no device 'gaudy3'; did you mean gaudi3?",
    "rtx 5060 supr": "no device 'rtx 5060 supr'; did you mean rtx-5060 or rtx-5060-ti?",
    "h100-sxm x8": "no device 'h100-sxm x8'; did you mean 8xh100-sxm?",
    "h100-sxm:8": "no device 'h100-sxm:8'; did you mean 8xh100-sxm?",
    "cuda": f"'cuda' {TORCH}h100-sxm, a100-sxm-80gb or rtx-4090",
    "8xGPU": f"'GPU' {TORCH}h100-sxm, a100-sxm-80gb or rtx-4090",
    "cuda:0": f"'cuda:0' {TORCH}h100-sxm, a100-sxm-80gb or rtx-4090",
    "cpu": f"'cpu' {TORCH}epyc-9654, ryzen-9-9950x or grace-72",
    "0xh100-sxm": "'0' is no number of devices, from 1 to 1,000,000; such as 8xh100-sxm",
    "-8xh100-sxm": "'-8' is no number of devices, from 1 to 1,000,000; such as 8xh100-sxm",
    "1.5xh100-sxm": "'1.5' is no number of devices, from 1 to 1,000,000; such as 8xh100-sxm",
    "10000000xl4": "'10000000' is no number of devices, from 1 to 1,000,000; such as 8xl4",
    "8x": "no device '8x'; `archcli devices` lists them",
    "": "no device ''; `archcli devices` lists them",
    "8x./missing.yaml": "missing.yaml: cannot be read",
}
# what is no card of the list, and near to none: another number is another card
UNLISTED = (
    *("GTX 970", "RTX 7090", "RX 8800 XT", "Quadro K6000", "Tesla C2050", "Arc Z990", "MI777", "TPU v9"),
    *("Radeon 222M", "ryzen 1700", "raspberry pi 5", "t3k", "llama-3.1-70b", "gpt2"),
)


@every_row("text", UNLISTED)
def test_a_hint_of_a_device_that_is_not_listed_proposes_no_other(text):
    with pytest.raises(ArchError) as caught:
        read_budget(text)
    assert caught.value.problems[0].what == f"no device '{text}'"
    assert caught.value.problems[0].hint.startswith("`archcli devices` lists them, ")
    assert "a line, '24GB, 1008GB/s, 165TFLOP/s', the memory alone, 24GB" in caught.value.problems[0].hint


WRONG_AMOUNTS = {
    "80": "--memory 80 has no unit; write 80GB (powers of 1,000) or 80GiB (powers of 1,024)",
    "80.5": "--memory 80.5 has no unit; write 80.5GB (powers of 1,000) or 80.5GiB (powers of 1,024)",
    "8x80": "--memory 80 has no unit; write 80GB (powers of 1,000) or 80GiB (powers of 1,024)",
    "80GX": "'80GX' is not an amount of memory such as 80GiB, 24GB or 8e9",
    "-80GiB": "'-80GiB' is not an amount of memory such as 80GiB, 24GB or 8e9",
    "": "'' is not an amount of memory such as 80GiB, 24GB or 8e9",
    "0GB": "--memory 0GB is no memory; such as 80GiB",
    "0x80GB": "'0' is no number of devices, from 1 to 1,000,000; such as 8x80GB",
    -1: "--memory -1 bytes is no memory; such as 80GiB",
}


@every_row("text", MISTAKES)
def test_a_mistake_in_a_device_is_one_line(text):
    with pytest.raises(ArchError) as caught:
        read_budget(text)
    assert MISTAKES[text] in str(caught.value)
    assert str(caught.value).count("\n") == 0


@every_row("text", WRONG_AMOUNTS)
def test_a_mistake_in_an_amount_is_one_line(text):
    with pytest.raises(ArchError) as caught:
        read_budget(memory=text)
    assert str(caught.value) == WRONG_AMOUNTS[text]


def test_a_device_and_an_amount_exclude_each_other():
    with pytest.raises(
        ArchError, match="--device and --memory both say what memory there is; leave --device or --memory out"
    ):
        read_budget("h100-sxm", "80GiB")


GPUS = (LocalGpu("NVIDIA H200", 140 * 2**30, "sm_90"), LocalGpu("NVIDIA L4", 22 * 2**30, "sm_89"))


def test_local_is_the_gpu_of_this_machine(monkeypatch):
    monkeypatch.setattr(cuda_driver, "local_gpus", lambda: GPUS)
    asked = read_budget("local")
    assert (asked.name, asked.n_devices, asked.memory_bytes) == ("NVIDIA H200", 1, 140 * 2**30)
    assert (asked.certainty, asked.source, asked.architecture) == ("A", OF_DRIVER, "sm_90")
    asked = read_budget("2xLOCAL")
    assert (asked.name, asked.n_devices, asked.memory_bytes) == ("NVIDIA L4", 2, 22 * 2**30)
    with pytest.raises(ArchError, match="3 × local: this machine has 2 GPUs; name a device: 3xh100-sxm"):
        read_budget("3xlocal")


def test_local_without_a_gpu_is_the_memory_of_the_processor(monkeypatch):
    monkeypatch.setattr(cuda_driver, "local_gpus", tuple)
    monkeypatch.setattr(machine, "available_memory", lambda: 12_345)
    monkeypatch.setattr(machine, "processor", str)
    asked = read_budget("local")
    assert (asked.name, asked.kind, asked.memory_bytes, asked.source) == ("CPU", "cpu", 12_345, OF_SYSTEM)
    with pytest.raises(ArchError, match="2 × local: this machine has no GPU that CUDA sees, and one memory"):
        read_budget("2xlocal")
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    with pytest.raises(ArchError, match="does not say what memory is available; state it: --memory 16GiB"):
        read_budget("local")


HOSTILE = (
    "8gb " * 3000,
    "a " * 5000,
    "9" * 9999,
    "2 " + "1" * 9999,
    "mac" * 3000,
    "x" * 9999,
    " -" * 5000 + "16",
)


@sampled_rows("text", HOSTILE, 4)
def test_a_hostile_name_is_refused_in_no_time(text):
    start = time.process_time()
    with pytest.raises(ArchError):
        read_budget(text)
    assert time.process_time() - start < 5
