"""Patterns of module names: the lists by which a quantization_config leaves modules out or picks them.

They are regular expressions of a stranger, so a small part of the language is read, whose time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from archcli.load.huggingface.weights.map import plain

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
    def numbered(self) -> bool:
        """Whether any pattern may tell one layer from another."""
        texts = [*self.exact, *(piece.pattern for matcher in self.matchers for piece in matcher)]
        return any(re.search(r"\d|\\d|\[", text) for text in texts)

    def match(self, name: str) -> bool:
        """Whether a module's name is meant by any of the patterns."""
        steps = name.split(".")
        spans = ((i, j) for i in range(len(steps)) for j in range(i + 1, len(steps) + 1))
        if self.exact and any(".".join(steps[i:j]) in self.exact for i, j in spans):
            return True
        names = [name, *(prefix + name for prefix in PREFIXES)]
        if name.startswith("model."):
            names += [f"model.{prefix}{name[6:]}" for prefix in PREFIXES]
        return any(_found(matcher, name) for matcher in self.matchers for name in names)

    def _add(self, regex: str) -> bool:
        variants = list(_without_choices(regex))
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
        made: list[str] = []
        for variant in variants:
            choice = CHOICE.search(variant)
            if choice is None:
                return
            before, after = variant[: choice.start()], variant[choice.end() :]
            made += [before + word + after for word in choice[1].split("|")]
        if len(made) > MOST_ALTERNATIVES:
            return
        variants = made
    for variant in variants:
        yield from variant.split("|")


def _is_bounded(piece: str) -> bool:
    return PIECE.fullmatch(piece) is not None and piece.count("+") <= MOST_REPEATS


def _found(matcher: list[re.Pattern[str]], name: str) -> bool:
    """Whether the pieces of a pattern, split at `.*`, follow one another; the first at the start."""
    first, *rest = matcher
    match = first.match(name)
    for piece in rest:
        if match is None:
            return False
        match = piece.search(name, match.end())
    return match is not None
