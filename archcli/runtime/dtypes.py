"""torch dtypes by their names on the command line."""

from __future__ import annotations

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype on the command line, or torch's own."""
    return next((name for name, known in DTYPES.items() if known is dtype), str(dtype).removeprefix("torch."))
