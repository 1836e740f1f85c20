"""Ceilings of a roofline: peak FLOP/s and bandwidths measured on a machine."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from archcli.modules.spec.values import Meaning


class Ceilings(TypedDict):
    """The highest speeds that were measured on a machine: matrix products and copies."""

    gemm_flops_per_s: Annotated[float, Meaning("FLOPs a second of the fastest matrix product.")]
    dram_bytes_per_s: Annotated[
        float, Meaning("Bytes a second of a copy beyond the caches, read and written.")
    ]
    cache_bytes_per_s: Annotated[float, Meaning("Bytes a second of a copy within a cache, read and written.")]
    dtype: Annotated[str, Meaning("In which numbers the product was.")]
    measured: Annotated[
        Literal["now", "earlier"],
        Meaning("In this run, or in an earlier one of the same machine."),
    ]
