"""NVIDIA's GPUs: architecture, document of the multiples of fp32, these, rows, what else."""

from __future__ import annotations

from typing import Any

AS_FP32 = {"estimates": "numbers of 16 bits are multiplied as fp32, at its rate: their own is a 64th or none"}
OF_LAPTOP = {"remark": "at the boost clock that TechPowerUp has: a laptop's maker sets its watts"}
WITHOUT = {"remark": "no matrix engines and no bf16"}
FP16 = ("fp16_tflops",)
GUIDE = "CUDA C++ Programming Guide, throughput of arithmetic instructions"
DP4A = f"int8 4 times fp32 by dp4a, as in NVIDIA's {GUIDE}"
PASCAL = {"fp16_tflops": 1, "int8_tops": 4, "fp32_tflops": 1}
OLDER = {"fp16_tflops": 1, "fp32_tflops": 1}
PASCAL_OF = (DP4A, PASCAL)
TURING = {"fp16_tflops": 8, "int8_tops": 16, "fp32_tflops": 1}
TURING_OF = "matrix engines 8 and 16 times fp32, as in the Turing whitepaper"
GEFORCE_20 = {"fp16_tflops": 4, "int8_tops": 16, "fp32_tflops": 1}
GEFORCE_20_OF = "matrix engines with fp32 accumulation 4 and 16 times fp32, as in the Turing whitepaper"
GEFORCE_30 = {"bf16_tflops": 2, "int8_tops": 8, "tf32_tflops": 1, "fp32_tflops": 1}
GEFORCE_30_OF = (
    "matrix engines with fp32 accumulation 2 and 8 times fp32, as in https://images.nvidia.com/aem-dam/en-zz"
    "/Solutions/geforce/ampere/pdf/NVIDIA-ampere-GA102-GPU-Architecture-Whitepaper-V1.pdf"
)
GEFORCE_40 = {"bf16_tflops": 2, "fp8_tflops": 4, "int8_tops": 8, "tf32_tflops": 1, "fp32_tflops": 1}
GEFORCE_40_OF = (
    "matrix engines with fp32 accumulation 2, 4 and 8 times fp32, as in https://images.nvidia.com/aem-dam"
    "/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
)
GEFORCE_50 = GEFORCE_30 | {"fp8_tflops": 4, "fp4_tflops": 16}
GEFORCE_50_OF = (
    "matrix engines with fp32 accumulation 2, 4, 8 and 16 times fp32, as in https://images.nvidia.com/aem-dam"
    "/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf"
)
HALVED = "half of the sparse figure of NVIDIA's datasheets"
AMPERE = {"bf16_tflops": 4, "int8_tops": 8, "tf32_tflops": 2, "fp32_tflops": 1}
AMPERE_OF = f"matrix engines 4 and 8 times fp32, {HALVED}"
ADA = {"bf16_tflops": 4, "fp8_tflops": 8, "int8_tops": 8, "tf32_tflops": 2, "fp32_tflops": 1}
ADA_OF = f"matrix engines 4 and 8 times fp32, {HALVED}"
BLACKWELL = ADA | {"fp4_tflops": 16}
BLACKWELL_OF = f"matrix engines 4, 8 and 16 times fp32, {HALVED}"

NVIDIA: dict[str, tuple[Any, ...]] = {
    "geforce-gtx-10": (
        "sm_61",
        *PASCAL_OF,
        """
GeForce GT 1030
GeForce GTX 1050
GeForce GTX 1050 3 GB
GeForce GTX 1050 Ti
GeForce GTX 1060 3 GB
GeForce GTX 1060 6 GB
GeForce GTX 1070
GeForce GTX 1070 Ti
GeForce GTX 1080
GeForce GTX 1080 Ti
TITAN X Pascal
TITAN Xp
GeForce GTX 1050 Mobile
GeForce GTX 1050 Ti Max-Q
GeForce GTX 1050 Ti Mobile | memory_sizes: [2gb, 4gb]
GeForce GTX 1060 Max-Q
GeForce GTX 1060 Mobile
GeForce GTX 1070 Max-Q
GeForce GTX 1070 Mobile
GeForce GTX 1080 Max-Q
GeForce GTX 1080 Mobile
""",
        AS_FP32 | WITHOUT,
        FP16,
    ),
    "geforce-gtx-16": (
        "sm_75",
        f"fp16 twice fp32, and {DP4A}",
        {"fp16_tflops": 2, "int8_tops": 4, "fp32_tflops": 1},
        """
GeForce GTX 1630
GeForce GTX 1650
GeForce GTX 1650 GDDR6
GeForce GTX 1650 SUPER
GeForce GTX 1660
GeForce GTX 1660 SUPER
GeForce GTX 1660 Ti
GeForce GTX 1650 Max-Q
GeForce GTX 1650 Mobile
GeForce GTX 1650 Ti Max-Q
GeForce GTX 1650 Ti Mobile
GeForce GTX 1660 Ti Max-Q
GeForce GTX 1660 Ti Mobile
""",
        WITHOUT,
    ),
    "geforce-rtx-20-more": (
        "sm_75",
        GEFORCE_20_OF,
        GEFORCE_20,
        """
GeForce RTX 2060
GeForce RTX 2060 12 GB
GeForce RTX 2060 SUPER
GeForce RTX 2070
GeForce RTX 2070 SUPER
GeForce RTX 2080
GeForce RTX 2080 SUPER
""",
        {"remark": "no bf16"},
    ),
    "geforce-rtx-20-laptop": (
        "sm_75",
        GEFORCE_20_OF,
        GEFORCE_20,
        """
GeForce RTX 2060 Max-Q
GeForce RTX 2060 Mobile
GeForce RTX 2070 Max-Q
GeForce RTX 2070 Mobile
GeForce RTX 2070 SUPER Max-Q
GeForce RTX 2070 SUPER Mobile
GeForce RTX 2080 Max-Q
GeForce RTX 2080 Mobile
GeForce RTX 2080 SUPER Max-Q
GeForce RTX 2080 SUPER Mobile
""",
        {"remark": f"no bf16; {OF_LAPTOP['remark']}"},
    ),
    "titan": (
        "sm_75",
        "matrix engines 8 times fp32, as in the whitepapers of Volta and Turing",
        {"fp16_tflops": 8, "fp32_tflops": 1},
        """
TITAN V | architecture: sm_70
TITAN RTX
""",
        {"remark": "no bf16"},
    ),
    "geforce-rtx-30-more": (
        "sm_86",
        GEFORCE_30_OF,
        GEFORCE_30,
        """
GeForce RTX 3050 6 GB
GeForce RTX 3050 8 GB
GeForce RTX 3060 8 GB
GeForce RTX 3060 Ti
GeForce RTX 3060 Ti GDDR6X
GeForce RTX 3070 Ti
""",
    ),
    "geforce-rtx-30-laptop": (
        "sm_86",
        GEFORCE_30_OF,
        GEFORCE_30,
        """
GeForce RTX 2050 Mobile
GeForce RTX 3050 Mobile
GeForce RTX 3050 Mobile Refresh 6 GB = rtx-3050-laptop-6gb
GeForce RTX 3050 Ti Mobile
GeForce RTX 3060 Max-Q
GeForce RTX 3060 Mobile
GeForce RTX 3070 Max-Q
GeForce RTX 3070 Mobile
GeForce RTX 3070 Ti Mobile
GeForce RTX 3080 Max-Q
GeForce RTX 3080 Mobile | memory_sizes: [8gb, 16gb]
GeForce RTX 3080 Ti Mobile
""",
        OF_LAPTOP,
    ),
    "geforce-rtx-40-more": (
        "sm_89",
        GEFORCE_40_OF,
        GEFORCE_40,
        """
GeForce RTX 4060
GeForce RTX 4070 GDDR6
GeForce RTX 4090 D = rtx-4090-d
""",
    ),
    "geforce-rtx-40-laptop": (
        "sm_89",
        GEFORCE_40_OF,
        GEFORCE_40,
        """
GeForce RTX 4050 Mobile
GeForce RTX 4060 Max-Q
GeForce RTX 4060 Mobile
GeForce RTX 4070 Max-Q
GeForce RTX 4070 Mobile
GeForce RTX 4080 Max-Q
GeForce RTX 4080 Mobile
GeForce RTX 4090 Max-Q
GeForce RTX 4090 Mobile
""",
        OF_LAPTOP,
    ),
    "geforce-rtx-50-more": (
        "sm_120",
        GEFORCE_50_OF,
        GEFORCE_50,
        """
GeForce RTX 5050
GeForce RTX 5060
GeForce RTX 5090 D = rtx-5090-d
GeForce RTX 5090 D V2 = rtx-5090-d-v2
""",
    ),
    "geforce-rtx-50-laptop": (
        "sm_120",
        GEFORCE_50_OF,
        GEFORCE_50,
        """
GeForce RTX 5050 Mobile
GeForce RTX 5060 Mobile
GeForce RTX 5070 Mobile
GeForce RTX 5070 Ti Mobile
GeForce RTX 5080 Mobile
GeForce RTX 5090 Mobile
""",
        OF_LAPTOP,
    ),
    "quadro-pascal": (
        "sm_61",
        *PASCAL_OF,
        """
Quadro P400 = quadro-p400
Quadro P600 = quadro-p600
Quadro P620 = quadro-p620
Quadro P1000 = quadro-p1000
Quadro P2000 = quadro-p2000
Quadro P2200 = quadro-p2200
Quadro P4000 = quadro-p4000
Quadro P5000 = quadro-p5000
Quadro P6000 = quadro-p6000
Quadro P3000 Mobile = quadro-p3000-laptop
Quadro P3200 Mobile = quadro-p3200-laptop
Quadro P4000 Mobile = quadro-p4000-laptop
Quadro P4200 Mobile = quadro-p4200-laptop
Quadro P5000 Mobile = quadro-p5000-laptop
Quadro P5200 Mobile = quadro-p5200-laptop
""",
        AS_FP32 | WITHOUT,
        FP16,
    ),
    "pascal-more": (
        "sm_60",
        "fp16 twice fp32, as in the Pascal whitepaper",
        {"fp16_tflops": 2, "fp32_tflops": 1},
        """
Quadro GP100
Tesla P100 PCIe 12 GB = p100-pcie-12gb
""",
        WITHOUT,
    ),
    "volta-more": (
        "sm_70",
        "matrix engines 8 times fp32, as in the Volta whitepaper",
        {"fp16_tflops": 8, "fp32_tflops": 1},
        """
Quadro GV100
Tesla V100 PCIe 32 GB = v100-pcie-32gb
Tesla V100S PCIe 32 GB = v100s-pcie-32gb
""",
        {"remark": "no bf16"},
    ),
    "quadro-rtx": (
        "sm_75",
        TURING_OF,
        TURING,
        """
Quadro RTX 4000
Quadro RTX 5000
Quadro RTX 6000
Quadro RTX 8000
Quadro RTX 3000 Mobile
Quadro RTX 4000 Mobile
Quadro RTX 5000 Mobile
Tesla T10 16 GB = t10
""",
        {"remark": "no bf16"},
    ),
    "quadro-t": (
        "sm_75",
        f"fp16 twice fp32, and {DP4A}",
        {"fp16_tflops": 2, "int8_tops": 4, "fp32_tflops": 1},
        """
T400 | memory_sizes: [2gb, 4gb]
T600
T1000 | memory_sizes: [4gb, 8gb]
Quadro T2000 Mobile = quadro-t2000-laptop
""",
        WITHOUT,
    ),
    "rtx-ampere-more": (
        "sm_86",
        AMPERE_OF,
        AMPERE,
        """
RTX A400
RTX A1000
RTX A500 Mobile
RTX A1000 Mobile
RTX A1000 Mobile 6 GB
RTX A2000 Mobile
RTX A2000 Mobile 8 GB
RTX A3000 Mobile
RTX A3000 Mobile 12 GB
RTX A4000 Mobile
RTX A4500 Mobile
RTX A5000 Mobile
RTX A5500 Mobile
A2
A16 PCIe = a16 | remark: one of four GPUs of a card of 250 W; drop: tdp_w
""",
    ),
    "rtx-ada-more": (
        "sm_89",
        ADA_OF,
        ADA,
        """
RTX 2000 Ada Generation
RTX 4000 SFF Ada Generation
RTX 5880 Ada Generation
RTX 500 Mobile Ada Generation
RTX 1000 Mobile Ada Generation
RTX 2000 Mobile Ada Generation
RTX 3000 Mobile Ada Generation
RTX 3500 Mobile Ada Generation
RTX 4000 Mobile Ada Generation
RTX 5000 Mobile Ada Generation
""",
    ),
    "rtx-pro-blackwell": (
        "sm_120",
        BLACKWELL_OF,
        BLACKWELL,
        """
RTX PRO 2000 Blackwell
RTX PRO 4000 Blackwell
RTX PRO 4000 Blackwell SFF
RTX PRO 4500 Blackwell
RTX PRO 5000 Blackwell
RTX PRO 5000 72 GB Blackwell
RTX 6000D
""",
    ),
    "tesla-pascal": (
        "sm_61",
        *PASCAL_OF,
        """
Tesla P4
Tesla P40
""",
        AS_FP32 | WITHOUT,
        FP16,
    ),
    "tesla-maxwell": (
        "sm_52",
        "no numbers narrower than fp32",
        OLDER,
        """
Tesla K80 | architecture: sm_37; remark: one of two GPUs of a card of 300 W; drop: tdp_w
Tesla M10 | architecture: sm_50; remark: one of four GPUs of a card of 225 W; drop: tdp_w
Tesla M40 | memory_sizes: [12gb, 24gb]
Tesla M60 | remark: one of two GPUs of a card of 300 W; drop: tdp_w
""",
        AS_FP32,
        FP16,
    ),
}
