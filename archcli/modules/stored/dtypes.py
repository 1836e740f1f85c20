"""Names of dtypes as arguments, options and settings: plain ones, torch's, and stored formats."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from archcli.arith import ELEMENT_BITS
from archcli.modules.spec.values import Conversion, value_type
from archcli.units import Taken, parse_dtype

COMPUTED = ("bf16", "fp16", "fp32")
TEXT = value_type(str)


def _dtype(value: Any) -> str:
    """The name of a dtype, also one of torch, or of a stored format."""
    return _named(value, ELEMENT_BITS, "parse_format")


def _weights_dtype(value: Any) -> str:
    """The name of a dtype that weights are stored and computed in, or of a stored format."""
    return _named(value, COMPUTED, "parse_weights")


def _cache_dtype(value: Any) -> str:
    """The name of a dtype, also one of torch, of a stored format, or of one that caches alone are kept in."""
    return _named(value, ELEMENT_BITS, "parse_cache_dtype")


def _named(value: Any, plain: Collection[str], parser: str) -> str:
    """The `plain` dtype of a name, else what a parser of `stored.formats` makes of it."""
    if isinstance(value, Taken):
        return value
    text = TEXT.convert(_dtype_name(value))
    if text.strip().lower() in plain:
        return parse_dtype(text)
    # formats need models: loaded only where no plain dtype has the name
    from archcli.modules.stored import formats

    parsed: str = getattr(formats, parser)(text)
    return parsed


def _plain_dtype(value: Any) -> str:
    """The name of a dtype, also one of torch, but of no stored format."""
    return parse_dtype(TEXT.convert(_dtype_name(value)))


def _dtype_name(value: Any) -> Any:
    # a dtype of torch, told by an attribute: torch is not imported here
    return str(value).removeprefix("torch.") if hasattr(value, "itemsize") else value


DtypeName = Annotated[str, Conversion("the name of a dtype", _dtype)]
"""A dtype by name, one of torch's, or a stored format such as q8_0."""
WeightsDtypeName = Annotated[str, Conversion("the name of a dtype", _weights_dtype)]
"""A dtype of a pass by name, or a stored format: bf16, q4_k_m, 4bit."""
CacheDtypeName = Annotated[str, Conversion("the name of a dtype", _cache_dtype)]
"""A dtype of a cache by name: bf16, q8_0, fp8_ds_mla."""
PlainDtype = Annotated[str, Conversion("the name of a dtype", _plain_dtype)]
"""A dtype by name, and no stored format."""
