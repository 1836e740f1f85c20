"""Intel's GPUs: architecture, document of the multiples of fp32, these, rows, what else."""

from __future__ import annotations

from typing import Any

OF_SHARED = "half of the RAM is what drivers give to graphics"
XMX = {"bf16_tflops": 8, "int8_tops": 16, "fp32_tflops": 1}
XMX_OF = "matrix engines 8 and 16 times fp32, as in Intel's Xe-HPG whitepaper"
XE = {"fp16_tflops": 2, "fp32_tflops": 1}
XE_OF = "fp16 twice fp32, as in the row"

INTEL: dict[str, tuple[Any, ...]] = {
    "arc": (
        "",
        XMX_OF,
        XMX,
        """
Arc A310
Arc A380
Arc A580
Arc A750
Arc A770 | memory_sizes: [8gb, 16gb]; bandwidth_gb_s: 560; pin_gbit_s: 17.5; remark: 512 GB/s with 8 GB
Arc A370M
Arc A550M
Arc A730M
Arc A770M
Arc Pro A40
Arc Pro A50
Arc Pro A60
Arc B570
Arc Pro B50
Arc Pro B60
Data Center GPU Flex 140 = flex-140 | remark: one of two GPUs of a card of 75 W; drop: tdp_w
Data Center GPU Flex 170 = flex-170
""",
    ),
    "intel-max": (
        "",
        "matrix engines 16 and 32 times fp32, as in Intel's product brief of the Data Center GPU Max Series",
        {"bf16_tflops": 16, "int8_tops": 32, "fp32_tflops": 1},
        """
Data Center GPU Max 1100 = max-1100
Data Center GPU Max 1550 = max-1550
""",
    ),
    "intel-integrated-xmx": (
        "",
        XMX_OF,
        XMX,
        """
Arc 130T Mobile = arc-130t | bandwidth_gb_s: 134.4; shared: 16 32 64 96; remark: with LPDDR5X-8400
Arc 140T Mobile = arc-140t | bandwidth_gb_s: 134.4; shared: 16 32 64 96; remark: with LPDDR5X-8400
Arc 130V Mobile = arc-130v | bandwidth_gb_s: 136.5; shared: 16; remark: with LPDDR5X-8533
Arc 140V Mobile = arc-140v | bandwidth_gb_s: 136.5; shared: 16 32; remark: with LPDDR5X-8533
""",
        {"estimates": OF_SHARED, "remark": "with its fastest LPDDR5X"},
    ),
    "intel-integrated": (
        "",
        XE_OF,
        XE,
        """
Arc Graphics 112EU Mobile = arc-112eu | bandwidth_gb_s: 119.5; shared: 16 32 64
Arc Graphics 128EU Mobile = arc-128eu | bandwidth_gb_s: 119.5; shared: 16 32 64
Iris Xe Graphics 80EU Mobile = iris-xe-80eu | bandwidth_gb_s: 102.4; shared: 16 32 64
Iris Xe Graphics 96EU Mobile = iris-xe-96eu | bandwidth_gb_s: 102.4; shared: 16 32 64
UHD Graphics 770 = uhd-770 | bandwidth_gb_s: 89.6; shared: 32 64 128
""",
        {"estimates": OF_SHARED, "remark": "no bf16; with LPDDR5: DDR4-3200 has 51.2 GB/s"},
    ),
}
