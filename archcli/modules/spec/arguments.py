"""Values of arguments, options and settings: amounts of memory, words of choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from archcli.modules.spec.request import Request
from archcli.modules.spec.values import (
    Conversion,
    Refusal,
    ZeroOrMore,
    refused,
    value_type,
)
from archcli.units import PACE, parse_bytes, parse_pace

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
"""What a closed form counts."""
AttentionKernel = Literal["sdpa", "eager"]
"""Attention in torch: one fused call, or its operations one by one."""
EngineName = Literal["none", "vllm", "sglang", "trtllm", "llamacpp", "mlx", "transformers"]
"""Engines that run inference; none is eager torch."""
TowerPart = Literal["vision_tower", "audio_tower"]
"""What a tower is called among the parts of a multimodal model."""


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


BYTES = value_type(ZeroOrMore)
MemorySize = Annotated[int | str, Conversion("bytes", memory_bytes)]
"""Bytes, or a text such as 80GiB."""
PaceText = Annotated[str, Conversion(PACE, _pace)]
"""A measured time or rate: 1.2s, 20tok/s."""
PlainRequest = Annotated[Request, Conversion("a Request", _request)]
"""A Request of whole numbers."""
ByName = Annotated[Mapping[str, Any], Conversion("a mapping from names", _mapping)]
"""A mapping from names to values of any type."""
