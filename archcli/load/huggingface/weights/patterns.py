"""Patterns: module names, globs and expressions that a quantization_config leaves out or picks.

Names are those of the checkpoint, from the table that its tensors' names go through. The regular expressions
are a stranger's: how many there are and the time that each takes are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from archcli.load.huggingface.weights.bounded import BoundedRegex
from archcli.load.huggingface.weights.map import plain

LONGEST, MOST_EXPRESSIONS, MOST_SLOW = 300, 500, 4
"""At most: letters of an entry, expressions of a list, and those among them that are slow to match."""
REGEX = "re:"
PREFIXES = ("language_model.", "text_model.", "thinker.", "llm.")
"""What wrappers put before a language model's names, or behind their `model.`."""
NUMBER = re.compile(r"\.\d+\.")
ANY_NUMBER = re.compile(r"(\\d|\[\\d\]|\[0-9\])(\+|\*|\{1,\})")


class Patterns:
    """A list of patterns of module names, such as `ignore` or `modules_to_not_convert`.

        Patterns(["lm_head", "mlp.gate", "re:.*self_attn.*"]).match("model.layers.3.mlp.gate")

    - A plain entry names consecutive steps of a module's name: `lm_head`, `mlp.gate`, `model.layers.0`.
    - `endings`: also how a name ends (`_proj`), as transformers reads it.
    - `whole`: it is all of a name, and means no module inside of that one.
    - `re:` begins a regular expression, from the name's start on.
    - `globs`: * stands for any text. Without them an entry with other characters is an expression up to the
      end of a step: `model.layers.*.mlp`.

    `unread` are entries that are not understood, `of_all_experts` those of a first expert
    (`experts.0.up_proj`) that stand for all experts of their layer.
    """

    def __init__(
        self,
        entries: Iterable[object] = (),
        *,
        globs: bool = False,
        endings: bool = False,
        whole: bool = False,
        of_all_experts: Collection[str] = (),
    ) -> None:
        self.of_all_experts = of_all_experts
        self.exact: dict[str, str] = {}
        self.expressions: dict[str, BoundedRegex] = {}
        self.unread: list[str] = []
        self.endings, self.whole = endings, whole
        self._used: set[str] = set()
        for entry in entries:
            if not isinstance(entry, str) or len(entry) > LONGEST:
                self.unread.append(str(entry))
            elif re.fullmatch(r"[\w./-]+", entry):
                self.exact[_bare(entry)] = entry
            elif not self._add(entry, _regex(entry, globs=globs)):
                self.unread.append(entry)

    def __bool__(self) -> bool:
        return bool(self.exact or self.expressions)

    def __iter__(self) -> Iterator[str]:
        return iter((*self.exact.values(), *self.expressions))

    @property
    def tells_layers_apart(self) -> bool:
        """Whether any pattern may match one layer and not another."""
        return any(map(tells_layers_apart, (*self.exact, *self.expressions)))

    def match(self, name: str) -> bool:
        """Whether a module's name is meant by any of the patterns."""
        entry = self._plain_match(name) or next(self._matching(name, self.expressions), None)
        if entry is not None:
            self._used.add(entry)
        return entry is not None

    def matches_any(self, names: Iterable[str]) -> bool:
        """Whether a module is meant that goes by several names."""
        return any(map(self.match, names))

    @property
    def has_idle(self) -> bool:
        """Whether any entry has not yet been the first to match a name."""
        return any(entry not in self._used for entry in (*self.exact.values(), *self.expressions))

    def unused(self, names: Iterable[str]) -> Iterator[str]:
        """The entries that match none of these names of modules, nor any that was asked about before."""
        names = [*names]
        meant = {text for name in names for text in self._parts(name)} if self.exact else set()
        for text, entry in self.exact.items():
            if entry not in self._used and text not in meant:
                yield entry
        # one layer stands for all where a pattern does not tell them apart
        every = [called for name in names for called in below_wrappers(name)]
        alike = [*{NUMBER.sub(".0.", called): called for called in every}.values()]
        text = "\n".join(every)
        for entry, expression in self.expressions.items():
            tried = every if tells_layers_apart(entry) else alike
            known = entry in self._used or (expression.literal in text and any(map(expression.match, tried)))
            if not known:
                yield entry

    def _plain_match(self, name: str) -> str | None:
        parts = self._parts(name) if self.exact else ()
        return next((self.exact[part] for part in parts if part in self.exact), None)

    def _parts(self, name: str) -> Iterator[str]:
        """What a plain entry may say of a name: a run of its steps, and with `endings` how it ends."""
        if self.whole:
            yield name
            return
        yield from _spans(name)
        if self.endings:
            yield from (name[start:] for start in range(len(name) + 1))

    def _matching(self, name: str, entries: Iterable[str]) -> Iterator[str]:
        """The entries whose expressions match a name, as it is or below a wrapper's prefix."""
        names = [*below_wrappers(name)]
        # a literal part of an expression, looked for first, spares most matches
        text = "\n".join(names)
        for entry in entries:
            expression = self.expressions[entry]
            if expression.literal in text and any(map(expression.match, names)):
                yield entry

    def _add(self, entry: str, regex: str) -> bool:
        if len(self.expressions) == MOST_EXPRESSIONS:
            return False
        try:
            expression = BoundedRegex(regex)
        except ValueError:
            return False
        slow = [known for known in self.expressions.values() if not known.is_quick]
        if not expression.is_quick and len(slow) == MOST_SLOW:
            return False
        self.expressions[entry] = expression
        return True


def tells_layers_apart(pattern: str) -> bool:
    """Whether a pattern may match one layer and not another, as layers.3 does."""
    return re.search(r"\d|\\d|\[|\(\?!", ANY_NUMBER.sub("", pattern)) is not None


def below_wrappers(name: str) -> Iterator[str]:
    """The name of a module of a language model, by itself and below the prefixes of wrappers."""
    yield name
    for prefix in PREFIXES:
        yield prefix + name
        if name.startswith("model."):
            yield f"model.{prefix}{name[6:]}"


def _bare(entry: str) -> str:
    """A plain entry without what wrappers put before their language model's names."""
    return plain(entry).removeprefix("thinker.").removeprefix("llm.").strip(".")


def _spans(name: str) -> Iterator[str]:
    """All runs of consecutive steps of a name: of a.b `a`, `a.b`, `b`."""
    steps = name.split(".")
    for start in range(len(steps)):
        for end in range(start + 1, len(steps) + 1):
            yield ".".join(steps[start:end])


def _regex(entry: str, *, globs: bool) -> str:
    if entry.startswith(REGEX):
        return entry.removeprefix(REGEX)
    if globs:
        return re.escape(entry).replace(r"\*", ".*").replace(r"\?", ".") + "$"
    return rf"(?:{entry})(?:\.|$)" if not entry.endswith(("*", "+", "$")) else entry
