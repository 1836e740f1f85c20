"""Patterns: the lists by which a quantization_config leaves modules out, or picks them, by name.

The names are those of the checkpoint, from the same table that its tensors' names go through. They are the
expressions of a stranger, so their number and the time that each takes are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from archcli.load.huggingface.weights.expression import Expression
from archcli.load.huggingface.weights.map import plain

LONGEST, MOST_EXPRESSIONS, MOST_SLOW = 300, 500, 4
"""Letters of an entry, expressions of a list, and those among them that Python's engine is not given."""
REGEX = "re:"
PREFIXES = ("language_model.", "text_model.", "thinker.")
"""What wrappers put before a language model's names, or behind their `model.`."""
ANY_NUMBER = re.compile(r"(\\d|\[\\d\]|\[0-9\])(\+|\*|\{1,\})")


class Patterns:
    """A list of patterns of module names, such as `ignore` or `modules_to_not_convert`.

        Patterns(["lm_head", "mlp.gate", "re:.*self_attn.*"]).match("model.layers.3.mlp.gate")

    A plain entry names consecutive steps of a module's name (`lm_head`, `mlp.gate`, model.layers.0); with
    `endings` also how a name ends (`_proj`), as transformers reads it. `re:` is a regular expression from the
    name's start on. With `globs`, * stands for any text; otherwise an entry with other characters is an
    expression up to the end of a step (`model.layers.*.mlp`). `unread` are those that are not understood.
    """

    def __init__(self, entries: Iterable[object] = (), *, globs: bool = False, endings: bool = False) -> None:
        self.exact: dict[str, str] = {}
        self.expressions: dict[str, Expression] = {}
        self.unread: list[str] = []
        self.endings = endings
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

    @property
    def tells_layers_apart(self) -> bool:
        """Whether any pattern may match one layer and not another."""
        texts = (ANY_NUMBER.sub("", text) for text in (*self.exact, *self.expressions))
        return any(re.search(r"\d|\\d|\[|\(\?!", text) for text in texts)

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
        meant = {span for name in names for span in _spans(name)} if self.exact else set()
        for text, entry in self.exact.items():
            ends = self.endings and any(name.endswith(text) for name in names)
            if entry not in self._used and text not in meant and not ends:
                yield entry
        for entry in self.expressions:
            if entry not in self._used and not any(any(self._matching(name, (entry,))) for name in names):
                yield entry

    def _plain_match(self, name: str) -> str | None:
        spans = (self.exact.get(span) for span in _spans(name)) if self.exact else ()
        entry = next((entry for entry in spans if entry is not None), None)
        if entry is None and self.endings:
            return next((entry for text, entry in self.exact.items() if name.endswith(text)), None)
        return entry

    def _matching(self, name: str, entries: Iterable[str]) -> Iterator[str]:
        """The entries whose expressions match a name, as it is or below a wrapper's prefix."""
        names = [name, *(prefix + name for prefix in PREFIXES)]
        if name.startswith("model."):
            names += [f"model.{prefix}{name[6:]}" for prefix in PREFIXES]
        for entry in entries:
            if any(map(self.expressions[entry].match, names)):
                yield entry

    def _add(self, entry: str, regex: str) -> bool:
        if len(self.expressions) == MOST_EXPRESSIONS:
            return False
        try:
            expression = Expression(regex)
        except ValueError:
            return False
        slow = [known for known in self.expressions.values() if not known.is_quick]
        if not expression.is_quick and len(slow) == MOST_SLOW:
            return False
        self.expressions[entry] = expression
        return True


def _bare(entry: str) -> str:
    """A plain entry without what wrappers put before their language model's names."""
    return plain(entry).removeprefix("thinker.").strip(".")


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
