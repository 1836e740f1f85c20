"""Named formats of stored weights and caches, such as q8_0, nf4 and mxfp4, with their true bits.

llama.cpp: the block structs of ggml-common.h, and what `llama-quantize --pure` leaves as it is
(`tensor_allows_quantization` of llama-quant.cpp). MX: OCP Microscaling Formats v1.0, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.arith import ELEMENT_BITS, Number, ceil_div, prod, to_bytes
from archcli.errors import ArchError
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.model import Model
from archcli.modules.spec.trace import outline
from archcli.modules.stored.quantization import Packing
from archcli.units import parse_dtype

if TYPE_CHECKING:
    from archcli.modules.stored.quantization import Quantization

POSITIONS = ("position_embedding", "token_type_embedding", "frozen_positional", "relative_attention_bias")
TABLES = ("embedding", *POSITIONS, "lm_head")
"""Groups of rows that are tables, and the head."""

SMALL = (*POSITIONS, "router", "conv_frontend")
"""Groups that llama.cpp never quantizes."""


class StoredFormat(NamedTuple):
    """How the matrices of a model are stored; everything else has the dtype `rest`.

    A row is made of whole blocks of `block` neighbours. Groups in `keeps` are not packed; where the model has
    a group in `only`, nothing else is. `cache`: engines keep keys and values in it, too.
    """

    packing: Packing
    block: int
    about: str
    rest: str = "bf16"
    keeps: tuple[str, ...] = (*TABLES, "router", "conv_frontend")
    only: tuple[str, ...] = ()
    cache: bool = False

    def quantization(self, groups: set[str]) -> Quantization:
        """The format as a `quantization` setting, for a model with these groups of rows."""
        from archcli.modules.stored.quantization import Quantization, Rule

        fields: dict[str, Any] = self.packing._asdict()
        if only := groups & {*self.only}:
            return Quantization(
                bits="dtype", rules=tuple(Rule(match=name, **fields) for name in sorted(only))
            )
        kept = sorted(groups & {*self.keeps})
        return Quantization(**fields, rules=tuple(Rule(match=name, bits="dtype") for name in kept))


def _ggml(
    bits: int, block: int, *, scale: int = 16, zero: int = 0, second: int = 0, cache: bool = False
) -> Any:
    """A ggml block format; with `second`, the groups' scales have a scale of so many bits per 256."""
    groups = {"second_group_size": 256 // block, "second_scale_bits": second} if second else {}
    about = "as llama-quantize --pure writes it: norms, biases, routers and position tables in fp32"
    packing = Packing(bits, block, scale, zero, **groups)
    return StoredFormat(packing, 256 if second else block, about, "fp32", SMALL, cache=cache)


_INT4 = Packing(4, 128, 16, 4)

FORMATS: Mapping[str, StoredFormat] = {
    # block_q4_0: 32 values of 4 bits and a scale of fp16, 4.5 bits a weight
    "q4_0": _ggml(4, 32, cache=True),
    # block_q4_1 has a minimum of fp16 beside the scale: 5 bits a weight
    "q4_1": _ggml(4, 32, zero=16, cache=True),
    "q5_0": _ggml(5, 32, cache=True),
    "q5_1": _ggml(5, 32, zero=16, cache=True),
    "q8_0": _ggml(8, 32, cache=True),
    "iq4_nl": _ggml(4, 32, cache=True),
    # block_q2_K: 16 groups of 16, scales and minima of 4 bits, d and dmin of fp16: 2.625 bits a weight
    "q2_k": _ggml(2, 16, scale=4, zero=4, second=32),
    # block_q3_K: scales of 6 bits, no minima, d of fp16: 3.4375 bits a weight
    "q3_k": _ggml(3, 16, scale=6, second=16),
    # block_q4_K: 8 groups of 32, scales and minima of 6 bits, d and dmin of fp16: 4.5 bits a weight
    "q4_k": _ggml(4, 32, scale=6, zero=6, second=32),
    "q5_k": _ggml(5, 32, scale=6, zero=6, second=32),
    # block_q6_K: 16 groups of 16, scales of 8 bits, d of fp16: 6.5625 bits a weight
    "q6_k": _ggml(6, 16, scale=8, second=16),
    "nf4": StoredFormat(
        Packing(4, 64, 32),
        64,
        "bitsandbytes, blocks of 64 with a scale of fp32 (QLoRA, arXiv:2305.14314); tables and head in bf16",
        keeps=TABLES,
    ),
    "nf4-double": StoredFormat(
        # 8 / 64 + 32 / (64 x 256) = 0.127 bits of scales a weight, as the paper has it
        Packing(4, 64, 8, 0, 256, 32),
        64,
        "nf4 with double quantization: scales of 8 bits, one of fp32 for 256 (arXiv:2305.14314 section 3)",
        keeps=TABLES,
    ),
    "awq-int4": StoredFormat(
        _INT4, 128, "AWQ (arXiv:2306.00978): groups of 128 with a scale of fp16 and a zero point of 4 bits"
    ),
    "gptq-int4": StoredFormat(
        _INT4, 128, "GPTQ (arXiv:2210.17323): groups of 128 with a scale of fp16 and a zero point of 4 bits"
    ),
    "mxfp4": StoredFormat(
        # 4.25 bits a weight, as in gpt-oss (arXiv:2508.10925)
        Packing(4, 32, 8),
        32,
        "OCP MX v1.0: blocks of 32 with a scale of 8 bits; of a mixture the experts alone, as in gpt-oss",
        only=("experts",),
    ),
    "mxfp8": StoredFormat(Packing(8, 32, 8), 32, "OCP MX v1.0: blocks of 32 with a scale of 8 bits"),
    "nvfp4": StoredFormat(
        Packing(4, 16, 8, 0, "tensor", 32),
        16,
        "NVIDIA's NVFP4: blocks of 16 with a scale of fp8, and one of fp32 for a matrix",
    ),
    "fp8-block": StoredFormat(
        # block 1: a tile is cut off at the edge of a matrix, so that rows of any length fit
        Packing(8, 128, 32, group_rows=128),
        1,
        "DeepSeek-V3 (arXiv:2412.19437 section 3.3): blocks of 128 x 128 with a scale of fp32",
    ),
}
"""By name; tables, head and router in bf16 unless it says otherwise."""

MIXED = {
    **dict.fromkeys(("q2_k_s", "q2_k_m"), "q2_k"),
    **dict.fromkeys(("q3_k_s", "q3_k_m", "q3_k_l"), "q3_k"),
    **dict.fromkeys(("q4_k_s", "q4_k_m"), "q4_k"),
    **dict.fromkeys(("q5_k_s", "q5_k_m"), "q5_k"),
}
"""Mixtures of llama.cpp, and the type that most of their matrices have."""


def parse_format(text: str) -> str:
    """The name of a dtype or of a format in any case; ArchError for any other."""
    name = text.strip().lower()
    if name in FORMATS:
        return name
    if name in MIXED:
        what = f"{name} is no format: llama.cpp chooses the type of each tensor by its layer and architecture"
        hint = f"give {MIXED[name]}, the type of most of them, or state rules in the YAML's `quantization`"
        raise ArchError(what, hint)
    try:
        return parse_dtype(name)
    except ArchError:
        raise ArchError(
            f"unknown dtype {text[:40]!r}", f"one of {', '.join((*ELEMENT_BITS, *FORMATS))}"
        ) from None


def in_format(model: Model, dtype: str) -> tuple[Model, str]:
    """The model stored in a named format, and the dtype of what is not packed.

    The model and dtype as they are for a plain dtype. ArchError where rows are not made of whole blocks, or
    the model states a quantization of its own.
    """
    named = FORMATS.get(dtype)
    if named is None:
        return model, dtype
    from archcli.modules.stored.quantization import quantizable

    if model.quantization is not None:
        what = f"the model states a quantization of its own, which {dtype} would contradict"
        raise ArchError(what, "give the dtype of what is not quantized, or --set quantization=null")
    rows = [row for row in outline(model, model.adapted) if quantizable(row)]
    quantization = named.quantization({row.group for row in rows})
    layers = LayerIndex(model)
    for row in rows:
        length = prod(row.weights["weight"][1:])
        packed = any(packing.bits != "dtype" for packing, _ in quantization.packings(row, layers))
        if packed and length % named.block:
            what = (
                f"{row.path}: rows of {length:,} weights are no whole blocks of {named.block}, as in {dtype}"
            )
            raise ArchError(what, "give a format of smaller blocks")
    return model.replace(quantization=quantization), named.rest


def cache_bytes(elements: Number, dtype: str) -> Number:
    """Bytes of this many cached elements, scales included; ArchError where no engine keeps a cache so."""
    named = FORMATS.get(dtype)
    if named is None:
        return to_bytes(elements, dtype)
    if not named.cache:
        known = ", ".join(name for name, other in FORMATS.items() if other.cache)
        raise ArchError(
            f"no engine keeps a cache in {dtype}", f"those of llama.cpp: {known}; others: bf16, fp8"
        )
    bits = named.packing.bits_of((1, elements), 0)
    return ceil_div(bits.values + bits.scales, 8)


def format_notes(dtype: str) -> tuple[str, ...]:
    """What a named format packs, and where that is written."""
    return (f"{dtype}: {FORMATS[dtype].about}.",) if dtype in FORMATS else ()
