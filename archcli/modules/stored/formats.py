"""Named formats of stored weights and caches, such as q4_k_m, nf4 and mxfp4, with their true bits.

llama.cpp: the block structs of ggml-common.h, and what `llama-quantize` leaves as it is
(`tensor_allows_quantization` of llama-quant.cpp). MX: OCP Microscaling Formats v1.0, section 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.arith import ELEMENT_BITS, Number, Shape, ceil_div, is_whole, prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import Row, StateContent
from archcli.modules.spec.unread import UNREAD
from archcli.modules.stored.mixes import MIXES, SUPER_BLOCK, TABLE, MixedModel, StoredLayers

POSITIONS = ("position_embedding", "token_type_embedding", "frozen_positional", "relative_attention_bias")
TABLES = ("embedding", *POSITIONS, "lm_head")
"""Groups of rows that are tables, and the head."""

SMALL = (*POSITIONS, "router", "conv_frontend")
"""Groups that llama.cpp never quantizes."""


class Bits(NamedTuple):
    """Bits of a matrix: of its values, and of the constants that scale them."""

    values: Number
    scales: Number


FLATTENED = 0
"""Of `group_rows`: groups go on from one row to the next, over the flattened matrix."""


class Packing(NamedTuple):
    """A format of quantized matrices, with all defaults filled in; see `Format` and `FLATTENED`.

    bits: of a value; "dtype" for the model's own. group_size: values of a group, or "row", or "tensor".
    scale_bits, zero_bits: of each group's scale and zero point. group_rows: rows that a group spans.
    second_group_size, second_scale_bits: scales that share one more scale, and its bits.
    input_bits: further bits for each input of a matrix. matrix_bits: for each matrix.
    """

    bits: int | str
    group_size: int | str = "row"
    scale_bits: int = 16
    zero_bits: int = 0
    second_group_size: int | str = "none"
    second_scale_bits: int = 32
    group_rows: int = 1
    input_bits: int = 0
    matrix_bits: int = 0

    def bits_of(self, shape: Shape, width: int) -> Bits:
        """The bits of a matrix [out, in, …] in this format; `width` is that of an unquantized element."""
        if not is_whole(self.bits):
            return Bits(prod(shape) * width, 0)
        groups = self._groups(shape)
        scales = groups * (self.scale_bits + self.zero_bits)
        scales += self._second_groups(groups) * self.second_scale_bits
        scales += prod(shape[1:]) * self.input_bits + self.matrix_bits
        return Bits(prod(shape) * self.bits, scales)

    def _groups(self, shape: Shape) -> Number:
        if self.group_rows == FLATTENED:
            return ceil_div(prod(shape), self.group_size)
        if is_whole(self.group_size):
            # a row is all that one output reads: of a convolution channels times taps
            return ceil_div(shape[0], self.group_rows) * ceil_div(prod(shape[1:]), self.group_size)
        return ceil_div(shape[0], self.group_rows) if self.group_size == "row" else 1

    def _second_groups(self, groups: Number) -> Number:
        if is_whole(self.second_group_size):
            return ceil_div(groups, self.second_group_size)
        return 1 if self.second_group_size == "tensor" else 0


PackingOf = Callable[[Row], Callable[[int], Packing]]
"""The packing of a row's matrix by the number of the layer."""
UNPACKED = Packing("dtype")


class NativeProduct(NamedTuple):
    """The dtype of the product of packed matrices, and the peak that a device needs for it."""

    runs_in: str
    needed: str


NATIVE: Mapping[str, NativeProduct] = {
    "fp8": NativeProduct("fp8", "fp8"),
    "int8": NativeProduct("int8", "int8"),
    "nvfp4": NativeProduct("fp4", "fp4"),
    # weights of 4 or 8 bits with inputs of 8, at the rate of fp8: PTX's mma with .kind::mxf8f6f4
    "mx": NativeProduct("fp8", "fp4"),
}
"""Kinds of packed numbers that some devices multiply as they are, with inputs quantized on the way."""


class StoredFormat(NamedTuple):
    """How the matrices of a model are stored; everything else has the dtype `rest`.

    A row is made of whole blocks of `block` neighbours. Groups in `keeps` are not packed; of a model with
    experts, the group `only` alone is, if one is named. `groups` have packings of their own: the head of
    exl2. `cache`: engines keep keys and values in it, too. `mix` names a mixture of llama.cpp, which has
    several types. `native`: as in `NATIVE`, empty for weights that products unpack on any device. A matrix
    whose rows are no whole blocks stays as it is, and is refused where all of a file is `pure`. `estimated`:
    files differ, and their bytes are known on average alone.
    """

    packing: Packing
    block: int
    about: str
    rest: str = "bf16"
    keeps: tuple[str, ...] = (*TABLES, "router", "conv_frontend")
    only: str = ""
    cache: bool = False
    mix: str = ""
    native: str = ""
    pure: bool = False
    groups: Mapping[str, Packing] = MappingProxyType({})
    estimated: bool = False

    @property
    def bits(self) -> float:
        """Bits of a packed weight with its scales; for a mixture, of its narrowest, most common type."""
        return sum(self.packing.bits_of((1, SUPER_BLOCK), 0)) / SUPER_BLOCK

    def packing_of(self, layers: StoredLayers) -> PackingOf:
        """The packing of each matrix of the model whose layers these are."""
        if self.mix:
            mixed = MixedModel(MIXES[self.mix], layers)
            return lambda row: self._in_mix(row, mixed)
        only = self._only(layers)

        def of_row(row: Row) -> Callable[[int], Packing]:
            is_packed = self._packs(row, only) and (self.pure or not self._is_broken(row, layers.ranks))
            packing = self.groups.get(row.group, self.packing) if is_packed else UNPACKED
            return lambda number: packing  # noqa: ARG005

        return of_row

    def _in_mix(self, row: Row, mixed: MixedModel) -> Callable[[int], Packing]:
        if self._keeps(row):
            return lambda number: UNPACKED  # noqa: ARG005
        type_of = mixed.types_of(row)
        return lambda number: GGML[type_of(number)]

    def broken_rows(self, rows: Iterable[Row], layers: StoredLayers) -> Iterator[Row]:
        """Those of the rows of matrices that are to be packed and are no whole blocks."""
        only = self._only(layers)
        yield from (row for row in rows if self._packs(row, only) and self._is_broken(row, layers.ranks))

    def _only(self, layers: StoredLayers) -> str:
        has_experts = any(layer.ffn is not None and layer.ffn.expert_counts[0] for layer in layers)
        return self.only if has_experts else ""

    def _packs(self, row: Row, only: str) -> bool:
        return row.group == only if only else not self._keeps(row)

    def _keeps(self, row: Row) -> bool:
        return row.group == UNREAD or (row.group in self.keeps and row.group not in self.groups)

    def _is_broken(self, row: Row, ranks: int) -> bool:
        length = prod(row.weights["weight"][1:])
        # llama.cpp's mixtures have a type for such rows. The part of a rank may end within a block of a row
        # that is whole in the file; engines fill it up
        return not self.mix and length % self.block != 0 and length * ranks % self.block != 0


GGML: Mapping[str, Packing] = {name: Packing(*fields) for name, fields in TABLE["types"].items()}
"""Types of tensors in GGUF files, as the block structs of ggml-common.h have them."""
CACHED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl")
"""Types in which llama.cpp also keeps keys and values."""
PURE = ("q3_k", "q4_k", "q5_k")
"""Types without a mixture of their name, which `llama-quantize --pure` writes."""


def _of_gguf(name: str) -> StoredFormat:
    most = MIXES[name].most if name in MIXES else name
    about = (
        f"llama.cpp's mixture, most of it {most}" if name in MIXES else "as llama-quantize --pure writes it"
    )
    left = f"{about}: norms, biases, routers and position tables in fp32"
    mix, cache = name if name in MIXES else "", name in CACHED
    return StoredFormat(GGML[most], SUPER_BLOCK, left, "fp32", SMALL, cache=cache, mix=mix, pure=not mix)


def _of_unsloth(bits: float, low: float, high: float, files: int) -> StoredFormat:
    spread = f"{low:g} to {high:g} bits a weight in {files} files" if files > 1 else f"{low:g} in one file"
    about = f"Unsloth's mixtures differ from model to model, {spread}: an estimate, {bits:g} for every matrix"
    return StoredFormat(_average(bits), 1, about, "fp32", SMALL, estimated=True)


def _average(bits: float) -> Packing:
    """So many bits a weight, with all constants: 4.25 are values of 4 and 64 more for 256 of them."""
    return Packing(int(bits), SUPER_BLOCK, round(bits % 1 * SUPER_BLOCK), group_rows=FLATTENED)


def _named(packing: list[Any], about: str, keeps: str = "", **fields: Any) -> StoredFormat:
    kept = {"tables": TABLES, "small": SMALL, "": (*TABLES, "router", "conv_frontend")}[keeps]
    groups = {group: Packing(*values) for group, values in fields.pop("groups", {}).items()}
    return StoredFormat(Packing(*packing), about=about, keeps=kept, groups=groups, **fields)


OF_BITS = re.compile(rf"(?P<kind>{'|'.join(TABLE['by_bits'])})-(?P<bits>\d\.\d+)")
"""A format of ExLlama's, which its bits name: exl2-4.0."""


def _of_bits(kind: str, bits: float) -> StoredFormat:
    facts = TABLE["by_bits"][kind]
    kept, groups = (*POSITIONS, "embedding", "router", "conv_frontend"), {"lm_head": Packing(*facts["head"])}
    about = facts["about"].format(bits)
    return StoredFormat(_average(bits), 1, about, "fp16", kept, groups=groups, estimated=True)


UNSLOTH: Mapping[str, StoredFormat] = {name: _of_unsloth(*row) for name, row in TABLE["unsloth"].items()}
GGUF = (*sorted((*MIXES, *PURE), key=lambda name: (name[0] == "m", name.lstrip("it"))), *UNSLOTH)
"""Formats of GGUF files, by bits: iq3_xxs stands beside q3_k."""
FORMATS: Mapping[str, StoredFormat] = {
    **{name: UNSLOTH.get(name) or _of_gguf(name) for name in GGUF},
    **{name: _named(**fields) for name, fields in TABLE["named"].items()},
}
"""By name; tables, head and router in bf16 unless it says otherwise."""

_BYTE_A_WEIGHT = StoredFormat(
    Packing(8, "row", 32), 1, "as engines store it: a scale of fp32 for each output; tables and head in bf16"
)
DTYPE_FORMATS: Mapping[str, StoredFormat] = {
    name: _BYTE_A_WEIGHT._replace(native=name) for name in ("fp8", "int8")
}
"""Formats that are also names of dtypes: a dtype is of all weights, tables and norms among them."""


def is_format(name: str) -> bool:
    """Whether weights can be stored in what has this name."""
    return name in FORMATS or name in DTYPE_FORMATS or OF_BITS.fullmatch(name) is not None


def stored_format(name: str) -> StoredFormat:
    """The format of a name that `is_format`, as `parse_format` returns it."""
    if match := OF_BITS.fullmatch(name):
        return _of_bits(match["kind"], float(match["bits"]))
    return FORMATS.get(name) or DTYPE_FORMATS[name]


def parse_format(text: str) -> str:
    """The name of a dtype or of a format, in any case or by a common word; ArchError for any other."""
    return _parsed(text, (*ELEMENT_BITS, *FORMATS))


def parse_weights(text: str) -> str:
    """Parse a dtype or format of weights that a pass computes with: int4 is the format, with scales."""
    known = (*(name for name in ELEMENT_BITS if name not in {"int4", "fp4"}), *FORMATS)
    name = _parsed(text, known)
    return OF_TORCH.get(name, name)


OF_TORCH = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
"""Torch's names of the dtypes that a pass computes in."""


def _parsed(text: str, known: Sequence[str], *, cache: bool = False) -> str:
    name = text.strip().lower()
    if name in known:
        return name
    from archcli.modules.stored.words import meant, near  # of names that no format has

    form = meant(text.strip(), known, cache=cache)
    if form is None:
        raise ArchError(f"unknown dtype {text[:40]!r}", near(text[:40], known))
    return form


FP8_OF_LATENTS = "fp8_ds_mla"
"""DeepSeek-V3.2's and V4's cache, by vLLM's name: latents in fp8 with scales, rotary keys in bf16."""
OF_LATENTS: Mapping[StateContent, tuple[int, int]] = {
    # 512 of fp8, 4 scales of fp32, and a rotary key of 64 in bf16: flash_mla's fp8 layout
    StateContent.LATENT: (512 + 64, 512 + 4 * 4 + 2 * 64),
    # 128 of fp8, and a scale of fp32
    StateContent.INDEX_KEYS: (128, 128 + 4),
    # of V4, one key that is the value too: 448 of fp8, 64 in bf16, 7 scales of e8m0 and a byte that fills up
    # (spark-arena/sparkrun #247: 584 bytes a token and layer)
    StateContent.KEYS_VALUES: (448 + 64, 448 + 2 * 64 + 8),
}
"""Numbers of a token's entry in that cache, and its bytes."""
CACHE_PACKINGS: Mapping[str, Packing] = {
    **{name: GGML[name] for name in CACHED},
    # blocks of 16 with a scale of fp8, as TensorRT-LLM keeps them; the scale of a whole matrix is a weight
    "nvfp4": Packing(4, 16, 8),
}
"""Packed formats that engines keep keys and values in."""


def parse_cache_dtype(text: str) -> str:
    """The name of a dtype or a format, also of one that caches alone are kept in; ArchError for any other.

    Keys and values may have two: q8_0:q4_0.
    """
    known = (*ELEMENT_BITS, *FORMATS, FP8_OF_LATENTS)
    halves = [_parsed(half, known, cache=True) for half in re.split("[:,]", text, maxsplit=1)]
    return halves[0] if halves[0] == halves[-1] else PAIR.join(halves)


PAIR = ":"
"""Between the types of keys and of values."""


OF_IDS, BYTES_OF_ID = "int64", 8
"""The dtype of the ids of tokens in transformers, which no weight has."""


def cache_bytes(elements: Number, dtype: str, content: StateContent = StateContent.KEYS_VALUES) -> Number:
    """Bytes of this many cached elements, scales included; ArchError where no engine keeps a cache so."""
    if dtype == OF_IDS:
        return BYTES_OF_ID * elements
    if dtype == FP8_OF_LATENTS:
        numbers, size = OF_LATENTS.get(content, (1, 1))
        return ceil_div(elements * size, numbers)
    keys, pair, values = dtype.partition(PAIR)
    if pair:
        # latents and keys of an indexer have no values beside them
        of_values = elements // 2 if content is StateContent.KEYS_VALUES else 0
        return cache_bytes(elements - of_values, keys, content) + cache_bytes(of_values, values, content)
    packing = CACHE_PACKINGS.get(dtype)
    if packing is None and dtype in FORMATS:
        known = ", ".join(CACHED)
        raise ArchError(
            f"no engine keeps a cache in {dtype}",
            f"those of llama.cpp: {known}; others: bf16, fp16, fp8, int8, nvfp4",
        )
    if packing is None:
        return to_bytes(elements, dtype)
    bits = packing.bits_of((1, elements), 0)
    return ceil_div(bits.values + bits.scales, 8)


def format_notes(dtype: str) -> tuple[str, ...]:
    """Notes on a named format: the tensors that it packs and its source; of fp8 and int8 other meanings."""
    if dtype in DTYPE_FORMATS:
        elsewhere = "matrices alone, with a scale for each output; tables and head in bf16"
        return (f"{dtype}: a byte for every number; in memory, predict and a quantization {elsewhere}.",)
    return (f"{dtype}: {stored_format(dtype).about}.",) if is_format(dtype) else ()


def form_note(dtype: str) -> str:
    """A note on an estimate, and on a type that no file has alone. Empty for other formats."""
    from archcli.modules.stored.words import blocks_note  # of names that people write

    if is_format(dtype) and stored_format(dtype).estimated:
        return f"{dtype}: {stored_format(dtype).about}."
    return blocks_note(dtype)
