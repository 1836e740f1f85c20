"""torch dtypes and devices by their names on the command line and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from archcli.errors import ArchError, quote

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype on the command line, or torch's own."""
    return next((name for name, known in DTYPES.items() if known is dtype), str(dtype).removeprefix("torch."))


def weights_dtype(name: str) -> torch.dtype:
    """The dtype of this name, also torch's own; ArchError where weights cannot be made in it."""
    dtype = DTYPES.get(name) or {"fp64": torch.float64}.get(name) or vars(torch).get(name)
    if dtype not in {torch.float64, *DTYPES.values()}:
        raise ArchError(f"a module cannot be built in {name}", "give fp32, bf16, fp16 or fp64")
    return dtype


def require_device(name: str) -> None:
    """Raise ArchError for a device that torch does not know or cannot use here."""
    try:
        # torch.device(name) alone accepts "cuda" on a machine without a GPU
        torch.empty(0, device=name)
    # AssertionError: torch was built without CUDA; NotImplementedError: it has no kernels for this kind;
    # ImportError: the kind is that of a package beside torch, such as hpu
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ArchError(
            f"device {quote(name)} cannot be used: {reason}", "cpu and meta are always there"
        ) from None


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make the dtype torch's default within the block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
