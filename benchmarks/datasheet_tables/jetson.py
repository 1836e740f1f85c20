"""Modules of NVIDIA's: architecture, document of the multiples of fp32, these, rows, what else."""

from __future__ import annotations

from typing import Any

TURING = {"fp16_tflops": 8, "int8_tops": 16, "fp32_tflops": 1}

JETSON: dict[str, tuple[Any, ...]] = {
    "jetson-older": (
        "sm_72",
        "matrix engines 8 and 16 times fp32, as in NVIDIA's Jetson AGX Xavier technical brief",
        TURING,
        """
Jetson AGX Xavier 32 GB = jetson-agx-xavier | memory_sizes: [16gb, 32gb]
Jetson Xavier NX 16 GB = jetson-xavier-nx | memory_sizes: [8gb, 16gb]
""",
        {
            "devices_per_node": "1",
            "remark": "no bf16; memory is shared with the processor, which needs some of it",
        },
    ),
    "jetson-oldest": (
        "sm_53",
        "fp16 twice fp32",
        {"fp16_tflops": 2, "fp32_tflops": 1},
        """
Jetson Nano
Jetson TX2 | architecture: sm_62
""",
        {
            "devices_per_node": "1",
            "remark": "no matrix engines, no bf16; memory is shared with the processor",
        },
    ),
    "jetson-orin-more": (
        "sm_87",
        "matrix engines 8 and 16 times fp32, as in the Jetson AGX Orin technical brief",
        {"bf16_tflops": 8, "int8_tops": 16, "fp32_tflops": 1},
        """
Jetson Orin NX 8 GB
Jetson Orin NX 16 GB
Jetson Orin Nano 4 GB
Jetson Orin Nano 8 GB
Jetson Orin Nano Super
""",
        {"devices_per_node": "1", "remark": "memory is shared with the processor, which needs some of it"},
    ),
}
