"""Values of arguments, options and settings: dtypes, amounts of memory, words of choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from archcli.arith import ELEMENT_BITS
from archcli.modules.spec.request import Request
from archcli.modules.spec.values import (
    Conversion,
    Refusal,
    ZeroOrMore,
    refused,
    value_type,
)
from archcli.units import PACE, Taken, parse_bytes, parse_dtype, parse_pace

CountedPairs = Literal["exact", "dense"]
"""Whether attention pairs are those that the mask allows, or all S x S."""
Mla = Literal["auto", "naive", "absorbed"]
"""Latent attention: keys and values are rebuilt, or queries work on the latents; auto as engines do."""
Scan = Literal["auto", "chunked", "recurrent"]
"""Recurrent layers: many tokens at once by matrix products, or one by one; auto decodes one by one."""
By = Literal["year", "series"]
"""What a survey groups architectures by."""
Schedule = Literal["1f1b", "interleaved"]
"""The order in which a pipeline's stages take micro batches: arXiv:2104.04473."""
ZeroStage = Literal[0, 1, 2, 3]
"""What ZeRO shards: nothing, the optimizer's states, gradients too, weights too."""
GradientDtype = Literal["bf16", "fp32"]
"""The types that gradients are summed in."""
Quantity = Literal["params", "flops", "kvcache"]
"""What a closed form is of."""
AttentionKernel = Literal["sdpa", "eager"]
"""Attention in torch: one fused call, or its operations one by one."""
TowerPart = Literal["vision_tower", "audio_tower"]
"""What a tower is called among the parts of a multimodal model."""


COMPUTED = ("bf16", "fp16", "fp32")


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


def memory_bytes(value: Any) -> int:
    """An amount of memory in bytes, also as a text such as 80GiB."""
    amount: int = parse_bytes(value) if isinstance(value, str) else BYTES.convert(value)
    return amount


def _pace(value: Any) -> str:
    """A measured time or rate, as written."""
    if not isinstance(value, str):
        raise refused(value, PACE)
    parse_pace(value)
    return value.strip()


def _request(value: Any) -> Request:
    """A request whose sizes are whole numbers: reports hold no symbols or arrays."""
    if not isinstance(value, Request):
        raise refused(value, "a Request")
    if not value.is_plain:
        raise Refusal("must hold whole numbers: archcli.formula counts in symbols, archcli.sweep in arrays")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    """A mapping by name, whatever its values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refused(value, "a mapping from names")
    return value


TEXT, BYTES = value_type(str), value_type(ZeroOrMore)
DtypeName = Annotated[str, Conversion("the name of a dtype", _dtype)]
"""A dtype by name, one of torch's, or a stored format such as q8_0."""
WeightsDtypeName = Annotated[str, Conversion("the name of a dtype", _weights_dtype)]
"""A dtype of a pass by name, or a stored format: bf16, q4_k_m, 4bit."""
CacheDtypeName = Annotated[str, Conversion("the name of a dtype", _cache_dtype)]
"""A dtype of a cache by name: bf16, q8_0, fp8_ds_mla."""
PlainDtype = Annotated[str, Conversion("the name of a dtype", _plain_dtype)]
"""A dtype by name, and no stored format."""
MemorySize = Annotated[int | str, Conversion("bytes", memory_bytes)]
"""Bytes, or a text such as 80GiB."""
PaceText = Annotated[str, Conversion(PACE, _pace)]
"""A measured time or rate: 1.2s, 20tok/s."""
PlainRequest = Annotated[Request, Conversion("a Request", _request)]
"""A Request of whole numbers."""
ByName = Annotated[Mapping[str, Any], Conversion("a mapping from names", _mapping)]
"""A mapping from names to values of any type."""
