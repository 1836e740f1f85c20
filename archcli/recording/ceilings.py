"""The best rates of a machine, by which a roofline is drawn."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic brings it, and takes no other below Python 3.12


class Ceilings(TypedDict):
    """What the machine can do at best."""

    gemm_flops_per_s: Annotated[float, Field(description="FLOPs a second of the fastest matrix product.")]
    dram_bytes_per_s: Annotated[
        float, Field(description="Bytes a second of a copy beyond the caches, read and written.")
    ]
    cache_bytes_per_s: Annotated[
        float, Field(description="Bytes a second of a copy within a cache, read and written.")
    ]
    dtype: Annotated[str, Field(description="In which numbers the product was.")]
    measured: Annotated[
        Literal["now", "earlier"],
        Field(description="In this run, or in an earlier one of the same machine."),
    ]


# set from outside of the class, where it would be taken for a key
Ceilings.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
