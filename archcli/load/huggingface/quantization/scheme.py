"""Scheme: how a quantization_config stores the matrices of a model, which it names and leaves out.

Patterns of module names: the lists by which a quantization_config leaves modules out or picks them. They
are regular expressions of a stranger, so a small part of the language is read, whose time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.weights.map import plain
from archcli.modules.stored.formats import Packing

KEYS = ("quantization_config", "compression_config")
OF_MLX = "quantization"
"""MLX's key, beside a copy at quantization_config; neither names a method."""


def stated_quantization(config: Config) -> Config | None:
    """The quantization_config of a file, or MLX's `quantization`; ArchError if it is no mapping."""
    config.ignore(*KEYS)
    of_mlx = config.data.get(OF_MLX)
    if isinstance(of_mlx, dict) and {"bits", "group_size"} <= of_mlx.keys():
        config.ignore(OF_MLX)
        inner = config.inner(OF_MLX, {})
        return replace(inner, data={"quant_method": "mlx", **inner.data})
    return next((config.inner(key, {}) for key in KEYS if config.data.get(key)), None)


LONGEST = 300
MOST_ALTERNATIVES, MOST_EXPRESSIONS = 64, 500
REGEX = "re:"
CHOICE = re.compile(r"\((?:\?:)?([^()]*)\)")
PIECE = re.compile(r"(?:[\w./-]|\\[.dw]\+?|\[[\w.^-]+\]\+?|\$|\^)*", re.ASCII)
MOST_REPEATS = 3
PREFIXES = ("language_model.", "text_model.")


class Patterns:
    """A list of patterns, as transformers, compressed-tensors and ModelOpt write them.

    A plain entry names consecutive steps of a module's name (`lm_head`, `mlp.gate`, model.layers.0), `re:` a
    regular expression from its start on. With `globs`, * stands for any text; otherwise an entry with other
    characters is a regular expression up to the end of a step. `unread` are those that are not understood.
    """

    def __init__(self, entries: Iterable[object] = (), *, globs: bool = False) -> None:
        self.exact: set[str] = set()
        self.matchers: list[list[re.Pattern[str]]] = []
        self.unread: list[str] = []
        for entry in entries:
            if not isinstance(entry, str) or len(entry) > LONGEST:
                self.unread.append(str(entry))
            elif re.fullmatch(r"[\w./-]+", entry):
                self.exact.add(plain(entry))
            elif not self._add(_regex(entry, globs=globs)):
                self.unread.append(entry)

    def __bool__(self) -> bool:
        return bool(self.exact or self.matchers)

    @property
    def tells_layers_apart(self) -> bool:
        """Whether any pattern may match one layer and not another."""
        texts = [*self.exact, *(piece.pattern for matcher in self.matchers for piece in matcher)]
        return any(re.search(r"\d|\\d|\[", text) for text in texts)

    def match(self, name: str) -> bool:
        """Whether a module's name is meant by any of the patterns."""
        steps = name.split(".")
        spans = ((i, j) for i in range(len(steps)) for j in range(i + 1, len(steps) + 1))
        if self.exact and any(".".join(steps[i:j]) in self.exact for i, j in spans):
            return True
        # a wrapper's file writes its patterns for names that begin with this prefix
        names = [name, *(prefix + name for prefix in PREFIXES)]
        if name.startswith("model."):
            names += [f"model.{prefix}{name[6:]}" for prefix in PREFIXES]
        return any(_matches(matcher, name) for matcher in self.matchers for name in names)

    def _add(self, regex: str) -> bool:
        variants = list(_without_choices(regex))
        # each piece is searched once, from where the last ended: `.*` in a pattern could backtrack for hours
        split = [variant.split(".*") for variant in variants]
        crowded = len(self.matchers) + len(variants) > MOST_EXPRESSIONS
        if crowded or not variants or not all(_is_bounded(piece) for pieces in split for piece in pieces):
            return False
        self.matchers += [[re.compile(piece) for piece in pieces] for pieces in split]
        return True


def _regex(entry: str, *, globs: bool) -> str:
    if entry.startswith(REGEX):
        return entry.removeprefix(REGEX)
    if globs:
        return entry.replace(".", r"\.").replace("*", ".*") + "$"
    return entry


def _without_choices(regex: str) -> Iterator[str]:
    """The regular expressions without (a|b) that match the same; none where there are too many."""
    variants = [regex]
    while any("(" in variant for variant in variants):
        expanded: list[str] = []
        for variant in variants:
            choice = CHOICE.search(variant)
            if choice is None:
                return
            before, after = variant[: choice.start()], variant[choice.end() :]
            expanded += [before + word + after for word in choice[1].split("|")]
        if len(expanded) > MOST_ALTERNATIVES:
            return
        variants = expanded
    for variant in variants:
        yield from variant.split("|")


def _is_bounded(piece: str) -> bool:
    return PIECE.fullmatch(piece) is not None and piece.count("+") <= MOST_REPEATS


def _matches(matcher: list[re.Pattern[str]], name: str) -> bool:
    """Whether the pieces of a pattern, split at `.*`, follow one another; the first at the start."""
    first, *rest = matcher
    match = first.match(name)
    for piece in rest:
        if match is None:
            return False
        match = piece.search(name, match.end())
    return match is not None


FP32 = 32
"""Bits of the scales that most methods store."""

AS_IT_IS = Packing("dtype")
WORD_BITS = 32
"""What GPTQ and AWQ pack values into."""


class Scheme(NamedTuple):
    """Which matrices are packed, and how.

    about: the scheme in a few words.
    packing: the format of packed matrices.
    kept: modules that are not packed.
    keeps, only: groups of rows that are not packed; the only groups that are, if any.
    overrides: other formats of some modules; the first that matches a module decides.
    layers_only: nothing outside of the layers is packed.
    in_words: a matrix is packed only if its outputs fill whole words of 32 bits.
    tables: the table of tokens is packed too.
    native: what some devices multiply as it is, by archcli's name.
    """

    about: str
    packing: Packing
    kept: Patterns = Patterns()
    keeps: tuple[str, ...] = ("lm_head", "router")
    only: tuple[str, ...] = ()
    overrides: tuple[tuple[Patterns, Packing], ...] = ()
    layers_only: bool = False
    in_words: bool = False
    tables: bool = False
    native: str = ""

    @property
    def tells_layers_apart(self) -> bool:
        """Whether it may store one layer otherwise than another."""
        patterns = (self.kept, *(patterns for patterns, _ in self.overrides))
        return any(it.tells_layers_apart for it in patterns)

    @property
    def unread(self) -> list[str]:
        """Patterns that are not understood."""
        return [*self.kept.unread, *(entry for patterns, _ in self.overrides for entry in patterns.unread)]

    def packing_of(self, group: str, names: Iterable[str], outputs: Any, *, in_layer: bool) -> Packing:
        """The format of a linear layer: `group` is that of its row, `names` are those of its module."""
        names = list(names)
        if group in self.keeps or (self.only and group not in self.only):
            return AS_IT_IS
        if (self.layers_only and not in_layer) or any(map(self.kept.match, names)):
            return AS_IT_IS
        overrides = (packing for patterns, packing in self.overrides if any(map(patterns.match, names)))
        packing = next(overrides, self.packing)
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
