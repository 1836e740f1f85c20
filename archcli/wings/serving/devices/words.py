"""Names of devices that files lack: aliases, the usual one of several, and kinds that torch names."""

from __future__ import annotations

ALIASES = {
    "h100-80gb": "h100-sxm",
    "h100-sxm-80gb": "h100-sxm",
    "h100-96gb": "h100-sxm-96gb",
    "h800": "h800-sxm",
    "a100-80gb": "a100-sxm-80gb",
    "a100-40gb": "a100-sxm-40gb",
    "a100-80gb-pcie": "a100-pcie-80gb",
    "a800": "a800-sxm-80gb",
    "a800-80gb": "a800-sxm-80gb",
    "v100-16gb": "v100-sxm-16gb",
    "v100-32gb": "v100-sxm-32gb",
    "p100": "p100-sxm-16gb",
    "gh200": "gh200-96gb",
    "h200": "h200-sxm",
    "b200": "b200-sxm",
    "b300": "b300-sxm",
    "gb10": "dgx-spark",
    "spark": "dgx-spark",
    "agx-thor": "jetson-thor",
    "agx-orin-32gb": "jetson-orin-32gb",
    "agx-orin-64gb": "jetson-orin-64gb",
    "strix-halo": "ryzen-ai-max-395",
    "8060s": "ryzen-ai-max-395",
    "framework-desktop": "ryzen-ai-max-395",
    "rtx-titan": "titan-rtx",
    "rtx-8000": "quadro-rtx-8000",
    "t2000": "quadro-t2000-laptop",
    "p100-12gb": "p100-pcie-12gb",
    "r9700": "ai-pro-r9700",
    "rx-6750-gre": "rx-6750-gre-12gb",
    "iris-xe": "iris-xe-96eu",
    "ironwood": "tpu-v7",
    "tpu7x": "tpu-v7",
    "trillium": "tpu-v6e",
    "trn1": "trainium1",
    "trn2": "trainium2",
    "trn3": "trainium3",
    "inf2": "inferentia2",
    "n150d": "n150",
    "n150s": "n150",
    "n300d": "n300",
    "n300s": "n300",
    "p150a": "p150",
    "p150b": "p150",
}
"""Names that mean one device, beside those of the files."""

USUAL = {
    "a100": "a100-sxm-80gb",
    "a100-pcie": "a100-pcie-80gb",
    "a100-sxm": "a100-sxm-80gb",
    "agx-orin": "jetson-orin-64gb",
    "gaudi": "gaudi3",
    "gtx-1060": "gtx-1060-6gb",
    "h100": "h100-sxm",
    "orin-nano": "jetson-orin-nano-8gb",
    "orin-nx": "jetson-orin-nx-16gb",
    "rtx-3050": "rtx-3050-8gb",
    "rtx-4000": "quadro-rtx-4000",
    "rtx-5000": "quadro-rtx-5000",
    "rtx-6000": "quadro-rtx-6000",
    "rtx-pro-6000": "rtx-pro-6000-workstation",
    "titan-x": "titan-x-pascal",
    "trainium": "trainium2",
    "v100": "v100-sxm-16gb",
    "v100-sxm": "v100-sxm-16gb",
    "xavier": "jetson-agx-xavier",
}
"""Names of several devices, and the one that is rented or sold most: it is taken, and a note says so."""

CORES = {
    "m1": (8, 16, 32, 64),
    "m2": (10, 19, 38, 76),
    "m3": (10, 18, 40, 80),
    "m4": (10, 20, 40),
    "m5": (10, 20, 40),
}
"""Cores of the largest GPU of Apple's chips, which is named without them: plain, Pro, Max and Ultra."""
for _chip, _cores in CORES.items():
    for _of, _size in zip(_cores, ("", "-pro", "-max", "-ultra"), strict=False):
        ALIASES[f"{_chip}{_size}-{_of}-core"] = f"{_chip}{_size}"

KINDS_OF_TORCH = {
    "cuda": ("h100-sxm", "a100-sxm-80gb", "rtx-4090"),
    "gpu": ("h100-sxm", "a100-sxm-80gb", "rtx-4090"),
    "hip": ("mi300x", "mi325x", "mi250x"),
    "rocm": ("mi300x", "mi325x", "mi250x"),
    "hpu": ("gaudi3", "gaudi2"),
    "mps": ("m4-max", "m3-max", "m2-ultra"),
    "cpu": ("epyc-9654", "ryzen-9-9950x", "grace-72"),
}
"""What torch and others call a kind of device, and devices of it whose memory is known."""
