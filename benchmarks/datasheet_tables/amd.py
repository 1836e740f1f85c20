"""AMD's GPUs: architecture, document of the multiples of fp32, these, rows, what else."""

from __future__ import annotations

from typing import Any

WITHOUT = {"remark": "no matrix engines and no bf16"}
OLDER = {"fp16_tflops": 1, "fp32_tflops": 1}
RDNA = {"fp16_tflops": 2, "fp32_tflops": 1}
RDNA_OF = "fp16 twice fp32, as in AMD's RDNA whitepaper"
RDNA_2 = {"fp16_tflops": 2, "int8_tops": 4, "fp32_tflops": 1}
RDNA_2_OF = "fp16 twice fp32, and int8 4 times by V_DOT4_I32_I8, as in AMD's RDNA 2 instruction set"
RDNA_3 = {"bf16_tflops": 2, "int8_tops": 2, "fp32_tflops": 1}
RDNA_3_OF = "fp16 twice fp32, int8 at the rate of fp16, as in AMD's RDNA 3 instruction set"
RDNA_4 = {"bf16_tflops": 4, "fp8_tflops": 8, "int8_tops": 8, "fp32_tflops": 1}
RDNA_4_OF = "matrix engines 4 and 8 times fp32, as on AMD's product page of the Radeon RX 9070 XT"
INFINITY = {
    "remark": "no matrix engines and no bf16; the last cache is the Infinity Cache of AMD's product page"
}
OF_SHARED = "half of the RAM is what drivers give to graphics"

AMD: dict[str, tuple[Any, ...]] = {
    "radeon-polaris": (
        "gfx803",
        "fp16 at the rate of fp32, as in the row",
        OLDER,
        """
Radeon RX 460 | memory_sizes: [2gb, 4gb]
Radeon RX 470 | memory_sizes: [4gb, 8gb]
Radeon RX 480 | memory_sizes: [4gb, 8gb]
Radeon RX 550 | memory_sizes: [2gb, 4gb]
Radeon RX 560
Radeon RX 570 | memory_sizes: [4gb, 8gb]
Radeon RX 580 | memory_sizes: [4gb, 8gb]
Radeon RX 590
Radeon Pro WX 7100
Radeon Instinct MI6
Radeon Instinct MI8
""",
        WITHOUT,
    ),
    "radeon-vega": (
        "gfx900",
        "fp16 twice fp32, as in AMD's Vega whitepaper",
        RDNA,
        """
Radeon RX Vega 56
Radeon RX Vega 64
Radeon Vega Frontier Edition = vega-frontier
Radeon Pro WX 8200
Radeon Pro WX 9100
Radeon Instinct MI25
""",
        WITHOUT,
    ),
    "radeon-vega-20": (
        "gfx906",
        "fp16 twice and int8 4 times fp32, as in AMD's datasheet of the Radeon Instinct MI60",
        RDNA_2,
        """
Radeon VII = radeon-vii
Radeon Pro VII = radeon-pro-vii
Radeon Instinct MI60
""",
        WITHOUT,
    ),
    "radeon-rx-5000": (
        "gfx1010",
        RDNA_OF,
        RDNA,
        """
Radeon RX 5500 XT | architecture: gfx1012; memory_sizes: [4gb, 8gb]
Radeon RX 5600 XT
Radeon RX 5700
Radeon RX 5700 XT
Radeon RX 5500M | architecture: gfx1012
Radeon RX 5600M
Radeon RX 5700M
Radeon Pro W5500 | architecture: gfx1012
Radeon Pro W5700
Radeon Pro V520 | architecture: gfx1011
""",
        WITHOUT,
    ),
    "radeon-rx-6000": (
        "gfx1030",
        RDNA_2_OF,
        RDNA_2,
        """
Radeon RX 6400 | architecture: gfx1034; l2_mb: 16
Radeon RX 6500 XT | architecture: gfx1034; l2_mb: 16
Radeon RX 6600 | architecture: gfx1032; l2_mb: 32
Radeon RX 6600 XT | architecture: gfx1032; l2_mb: 32
Radeon RX 6650 XT | architecture: gfx1032; l2_mb: 32
Radeon RX 6700 | architecture: gfx1031; l2_mb: 80
Radeon RX 6700 XT | architecture: gfx1031; l2_mb: 96
Radeon RX 6750 GRE 12 GB = rx-6750-gre-12gb | architecture: gfx1031; l2_mb: 96
Radeon RX 6750 XT | architecture: gfx1031; l2_mb: 96
Radeon RX 6800 | l2_mb: 128
Radeon RX 6800 XT | l2_mb: 128
Radeon RX 6900 XT | l2_mb: 128
Radeon RX 6950 XT | l2_mb: 128
Radeon PRO W6400 | architecture: gfx1034; l2_mb: 16
Radeon PRO W6600 | architecture: gfx1032; l2_mb: 32
Radeon PRO W6800 | l2_mb: 128
Radeon PRO V620 | l2_mb: 128
Radeon RX 6600M | architecture: gfx1032; l2_mb: 32
Radeon RX 6650M | architecture: gfx1032; l2_mb: 32
Radeon RX 6700M | architecture: gfx1031; l2_mb: 80
Radeon RX 6700S | architecture: gfx1032; l2_mb: 32
Radeon RX 6800M | architecture: gfx1031; l2_mb: 96
Radeon RX 6800S | architecture: gfx1032; l2_mb: 32
Radeon RX 6850M XT | architecture: gfx1031; l2_mb: 96
""",
        INFINITY,
    ),
    "radeon-rx-7000": (
        "gfx1100",
        RDNA_3_OF,
        RDNA_3,
        """
Radeon RX 7600 | architecture: gfx1102; l2_mb: 32
Radeon RX 7600 XT | architecture: gfx1102; l2_mb: 32
Radeon RX 7700 XT | architecture: gfx1101; l2_mb: 48
Radeon RX 7800 XT | architecture: gfx1101; l2_mb: 64
Radeon RX 7900 GRE | l2_mb: 64
Radeon RX 7900 XT | l2_mb: 80
Radeon PRO W7500 | architecture: gfx1102; l2_mb: 32
Radeon PRO W7600 | architecture: gfx1102; l2_mb: 32
Radeon PRO W7700 | architecture: gfx1101; l2_mb: 64
Radeon PRO W7800 | l2_mb: 64
Radeon PRO W7800 48 GB | l2_mb: 96
Radeon RX 7600M XT | architecture: gfx1102; l2_mb: 32
Radeon RX 7700S | architecture: gfx1102; l2_mb: 32
Radeon RX 7900M | l2_mb: 64
""",
        {"remark": "the last cache is the Infinity Cache of AMD's product page; fp32 as two issued at once"},
    ),
    "radeon-rx-9000": (
        "gfx1201",
        RDNA_4_OF,
        RDNA_4,
        """
Radeon RX 9060 | architecture: gfx1200; l2_mb: 32
Radeon RX 9060 XT 16 GB = rx-9060-xt | architecture: gfx1200; l2_mb: 32; memory_sizes: [8gb, 16gb]
Radeon RX 9070 | l2_mb: 64
Radeon RX 9070 GRE | l2_mb: 48
Radeon RX 9070 XT | l2_mb: 64
Radeon AI PRO R9700 | l2_mb: 64
""",
        {"remark": "the last cache is the Infinity Cache of AMD's product page; fp32 as two issued at once"},
    ),
    "radeon-integrated-rdna2": (
        "gfx1035",
        RDNA_2_OF,
        RDNA_2,
        """
Radeon 660M = radeon-660m | bandwidth_gb_s: 102.4; shared: 16 32 64
Radeon 680M = radeon-680m | bandwidth_gb_s: 102.4; shared: 16 32 64
""",
        {"estimates": OF_SHARED, "remark": "no bf16; with LPDDR5-6400: DDR5-4800 has 76.8 GB/s"},
    ),
    "radeon-integrated-rdna3": (
        "gfx1103",
        RDNA_3_OF,
        RDNA_3,
        """
Radeon 740M = radeon-740m | bandwidth_gb_s: 120; shared: 16 32 64 96
Radeon 760M = radeon-760m | bandwidth_gb_s: 120; shared: 16 32 64 96
Radeon 780M = radeon-780m | bandwidth_gb_s: 120; shared: 16 32 64 96
""",
        {"estimates": OF_SHARED, "remark": "with LPDDR5X-7500: DDR5-5600 has 89.6 GB/s"},
    ),
    "radeon-integrated-rdna35": (
        "gfx1150",
        f"{RDNA_3_OF}, and fp32 as two issued at once, which the row does not count",
        {"bf16_tflops": 4, "int8_tops": 4, "fp32_tflops": 2},
        """
Radeon 860M = radeon-860m | architecture: gfx1152; bandwidth_gb_s: 128; shared: 16 32 64 96
Radeon 880M = radeon-880m | bandwidth_gb_s: 128; shared: 16 32 64 96
Radeon 890M = radeon-890m | bandwidth_gb_s: 128; shared: 16 32 64 96
Radeon 8050S = radeon-8050s | architecture: gfx1151; bandwidth_gb_s: 256; shared: 32 64
""",
        {"estimates": OF_SHARED, "remark": "with LPDDR5X-8000: DDR5-5600 has 89.6 GB/s"},
    ),
}
