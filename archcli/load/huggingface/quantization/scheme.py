"""Scheme: the stored form of a model's matrices by its quantization_config, with exceptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules.stored.formats import FLATTENED, Packing

KEYS = ("quantization_config", "compression_config")
OF_MLX = "quantization"
"""MLX's key, beside a copy at quantization_config; neither names a method."""
OF_CHATGLM = "quantization_bit"
"""ChatGLM's key of the bits of its stored weights, 0 for plain ones."""
OF_EXPERTS = ("expert_dtype", "moe_quant_algo")
"""Keys beside a quantization_config for the stored form of experts."""


def stated_quantization(config: Config) -> Config | None:
    """The quantization_config of a file, or MLX's `quantization`; ArchError if it is no mapping."""
    config.ignore(*KEYS)
    of_mlx = config.data.get(OF_MLX)
    if isinstance(of_mlx, dict) and {"bits", "group_size"} <= of_mlx.keys():
        config.ignore(OF_MLX)
        inner = config.inner(OF_MLX, {})
        return replace(inner, data={"quant_method": "mlx", **inner.data})
    settings = next((config.inner(key, {}) for key in KEYS if config.data.get(key)), None)
    outside = {key: config.data[key] for key in OF_EXPERTS if config.data.get(key) is not None}
    bits = config.data.get(OF_CHATGLM)
    if bits and settings is None:
        outside |= {"quant_method": "chatglm", "bits": bits}
    if outside:
        inner = settings or Config({}, config.places, notes=config.notes)
        return replace(inner, data={**outside, **inner.data})
    return settings


FP16, FP32, INDEX = 16, 32, 32
"""Bits of a scale in the model's fp16 or bf16, of one in fp32, and of an input's group in `g_idx`."""
MOST_SETTINGS = 100
"""Settings by group or module that are read: real files have a few."""

AS_IT_IS = Packing("dtype")
NVFP4 = Packing(4, 16, 8, 0, "tensor", FP32)
"""A scale of fp8 for 16 values, and one of fp32 for a matrix."""
MXFP4, MXFP8 = Packing(4, 32, 8), Packing(8, 32, 8)
"""OCP Microscaling 1.0: a scale of e8m0 for 32 values."""
WORD_BITS = 32
"""Bits of the words into which GPTQ and AWQ pack values."""


HEAD = ("lm_head", "router")
"""Groups that most methods leave as they are."""
TABLES = (
    "embedding",
    "position_embedding",
    "token_type_embedding",
    "per_layer_embedding",
    "ngram_embedding",
)
"""Groups of tables, which are modules of their own."""


class Scheme(NamedTuple):
    """The packed matrices of a model and their format.

    about: the scheme in a few words.
    packing: the format of packed matrices.
    kept: modules that are not packed.
    keeps, only: groups of rows that are not packed; the only groups that are, if any.
    overrides: other formats of some modules; the first that matches a module decides.
    layers_only: nothing outside of the layers is packed.
    in_words: a matrix is packed only if its outputs fill whole words of 32 bits.
    tables: groups of tables that are packed too.
    of_groups: the formats of groups of rows that differ, such as experts; patterns decide before them.
    native: what some devices multiply as it is, by archcli's name.
    """

    about: str
    packing: Packing
    kept: Patterns = Patterns()
    keeps: tuple[str, ...] = HEAD
    only: tuple[str, ...] = ()
    overrides: tuple[tuple[Patterns, Packing], ...] = ()
    layers_only: bool = False
    in_words: bool = False
    tables: tuple[str, ...] = ()
    native: str = ""
    of_groups: Mapping[str, Packing] = MappingProxyType({})

    @property
    def patterns(self) -> tuple[Patterns, ...]:
        """All lists of patterns."""
        return (self.kept, *(patterns for patterns, _ in self.overrides))

    @property
    def tells_layers_apart(self) -> bool:
        """Whether layers may be stored in different forms."""
        return any(patterns.tells_layers_apart for patterns in self.patterns)

    @property
    def unread(self) -> list[str]:
        """Patterns that are not understood."""
        return [entry for patterns in self.patterns for entry in patterns.unread]

    def packing_of(self, group: str, names: Iterable[str], outputs: Any, *, in_layer: bool) -> Packing:
        """The format of a linear layer: `group` is that of its row, `names` are those of its module."""
        names = list(names)
        if group in self.keeps or (self.only and group not in self.only):
            return AS_IT_IS
        if (self.layers_only and not in_layer) or self.kept.matches_any(names):
            return AS_IT_IS
        overrides = (packing for patterns, packing in self.overrides if patterns.matches_any(names))
        packing = next(overrides, self.of_groups.get(group, self.packing))
        if self.in_words and isinstance(packing.bits, int) and outputs * packing.bits % WORD_BITS:
            return AS_IT_IS
        return packing


Reader = Callable[[Config], Scheme | None]
"""A function from a quantization_config to its scheme; None where a setting is not known."""


def entries(config: Config, *names: str) -> list[object]:
    """The list at the first of these keys that is not null."""
    value = config.get(*names, default=[])
    if not isinstance(value, list):
        raise config.error(f"{names[0]} must be a list", at=config.place(*names))
    return value


def kept_or_head(config: Config) -> tuple[Patterns, tuple[str, ...]]:
    """The unpacked modules and groups: the head, unless a list says otherwise."""
    setting = config.get("modules_to_not_convert", default=None)
    kept = Patterns(entries(config, "modules_to_not_convert"), endings=True)
    return kept, ("router",) if setting else HEAD


def group_of(config: Config, *names: str, default: Any = 128) -> int | str:
    """The group size; -1, which means all of a row, as row."""
    size = config.value(*names, default=default)
    return "row" if size.value == -1 else config.size(*names, default=default).value


def grouped(group: int | str) -> str:
    """The groups of a format in words."""
    return f"in groups of {group}" if isinstance(group, int) else f"with a scale a {group}"


def block_size(value: Any) -> tuple[int, int] | None:
    """(rows, columns) of a block that shares a scale; None for anything else."""
    match value:
        case [int() as rows, int() as columns] if rows > 0 and columns > 0:
            return rows, columns
    return None


EXPERT = re.compile(r"(\bexperts\.)\d+\.")


def averaging(bits: float) -> Packing:
    """The format of matrices with an average of bits per value, scales included: 4.65."""
    whole, hundredths = divmod(round(100 * bits), 100)
    # the rest of a hundred values stands in for a scale
    return Packing(whole, 100, hundredths, group_rows=FLATTENED)


def by_module(settings: Mapping[str, Packing], **how: Any) -> tuple[tuple[Patterns, Packing], ...]:
    """The overrides of modules by name or pattern, those of one format in one list.

    All experts of a layer are stored alike: an entry of the first stands for those of the others.
    """
    by_packing: dict[Packing, list[str]] = {}
    of_all = set()
    for name, packing in settings.items():
        first = EXPERT.sub(r"\g<1>0.", name)
        if first == name or first not in settings:
            by_packing.setdefault(packing, []).append(name)
        elif settings[first] == packing:
            of_all.add(first)
    return tuple(
        (Patterns(names, of_all_experts=of_all.intersection(names), **how), packing)
        for packing, names in by_packing.items()
    )
