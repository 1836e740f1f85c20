r"""BoundedRegex: a stranger's regular expression, matched in bounded time.

Python's own engine goes back to every choice: `(a+)+$` on a name of 80 letters takes for ever. It is given
expressions of at most two open repeats, none within another. Any other is matched by sets of places, in a
time of the square of the name's length: of `a.*b` on "abab" the `b` may end at {2, 4}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

LONGEST, MOST_OPEN, DEEPEST = 2000, 2, 6
"""Letters of an expression, open repeats that Python's engine is given, and groups one within another."""
TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!]|P<\w+>))?|[)|]|(?:[*+?]|\{\d+(?:,\d*)?\})\??|.",
    re.DOTALL,
)
"""An escape, a set, the start of a group, its end, a choice, a repeat, or a letter."""
REPEAT = re.compile(r"(?:[*+?]|\{(\d+)(,?)(\d*)\})\??")
UNREAD = re.compile(r"\\[1-9gk]|\(\?[^:=!P]|[*+?}]\+")
"""References to what a group matched, flags, views backwards, and repeats that give nothing back."""

LETTER = re.compile(r"[\w/-]|\\(?P<escaped>[./-])")

Places = frozenset[int]
Step = Callable[[str, Places], Places]
"""Maps places where a part of an expression may begin in a text to places where it may end."""


class BoundedRegex:
    """A regular expression. ValueError where it is none, too long, or of a kind that is not read.

    `is_quick`: Python's own engine matches it. `literal`: letters that every text has that it matches, by
    which texts can be passed over ten times as quickly.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST or UNREAD.search(re.sub(r"\\[^1-9gk]|\[[^\]]*\]", "x", text)):
            raise ValueError(text)
        try:
            self._native = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(text) from error
        tokens = TOKEN.findall(text)
        self.literal = _literal(tokens)
        reader = _Reader(tokens)
        self._step = reader.choice()
        self.is_quick = reader.open_repeats <= MOST_OPEN and not reader.nested

    def match(self, text: str, *, whole: bool = False) -> bool:
        """Whether the text begins with what is meant, or is it as a `whole`."""
        if self.is_quick:
            return (self._native.fullmatch if whole else self._native.match)(text) is not None
        ends = self._step(text, frozenset((0,)))
        return len(text) in ends if whole else bool(ends)


def _literal(tokens: Sequence[str]) -> str:
    r"""The longest run of letters that every match has: `self_attn.` of `.*self_attn\.(q|k)_proj`."""
    runs, depth = [""], 0
    for here, after in zip(tokens, [*tokens[1:], ""], strict=True):
        depth += here.startswith("(") - (here == ")")
        if here == "|" and depth == 0:
            return ""
        letter = LETTER.fullmatch(here)
        if letter is None or depth or REPEAT.fullmatch(after):
            runs.append("")
        else:
            runs[-1] += letter["escaped"] or here
    return max(runs, key=len)


class _Reader:
    """Reads the tokens of an expression that Python's engine has taken for one."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.open_repeats, self.nested = 0, False

    def choice(self) -> Step:
        """The parts between `|`, up to the end of the group."""
        self.depth += 1
        # look-aheads run a step for each place: groups within groups multiply that time
        if self.depth > DEEPEST:
            raise ValueError("groups within groups")
        parts = [self._sequence()]
        while self._here() == "|":
            self.at += 1
            parts.append(self._sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def _here(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _sequence(self) -> Step:
        steps: list[Step] = []
        letters = ""
        while self._here() not in ("", "|", ")"):
            before = self.open_repeats
            token, group = self._atom()
            repeat = REPEAT.fullmatch(self._here())
            if group is None and repeat is None:
                letters += token
                continue
            if letters:
                steps.append(_letters(letters))
                letters = ""
            step = group or _letters(token)
            steps.append(step if repeat is None else self._repeated(step, repeat, before))
        return _in_turn([*steps, *([_letters(letters)] if letters else [])])

    def _atom(self) -> tuple[str, Step | None]:
        """A letter, or a group's step."""
        token = self._here()
        self.at += 1
        if not token.startswith("("):
            return token, None
        inner = self.choice()
        self.at += 1  # the end of the group
        looks = {"(?=": True, "(?!": False}
        return token, _ahead(inner, wanted=looks[token]) if token in looks else inner

    def _repeated(self, inner: Step, repeat: re.Match[str], before: int) -> Step:
        self.at += 1
        sign, (least, comma, most) = repeat[0][0], repeat.groups()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (int(least or 0), None))
        if sign == "{":
            high = int(most) if most else None if comma else low
        # a repeat over a repeat is what makes Python's engine exponential
        if high is None or high > 1:
            self.nested = self.nested or self.open_repeats > before
            self.open_repeats += 1
        return _repeat(inner, low, high)


def _letters(pattern: str) -> Step:
    """A part without choices, as Python's engine reads it at each place."""
    alone = re.compile(pattern)

    def step(text: str, places: Places) -> Places:
        matches = (alone.match(text, place) for place in places)
        return frozenset(match.end() for match in matches if match is not None)

    return step


def _in_turn(steps: Sequence[Step]) -> Step:
    def step(text: str, places: Places) -> Places:
        for part in steps:
            if not places:
                break
            places = part(text, places)
        return places

    return step


def _any_of(parts: Sequence[Step]) -> Step:
    return lambda text, places: frozenset().union(*(part(text, places) for part in parts))


def _ahead(inner: Step, *, wanted: bool) -> Step:
    def step(text: str, places: Places) -> Places:
        return frozenset(place for place in places if bool(inner(text, frozenset((place,)))) is wanted)

    return step


def _repeat(inner: Step, least: int, most: int | None) -> Step:
    def step(text: str, places: Places) -> Places:
        # a turn goes on by a letter at least or changes nothing: more turns reach nothing new
        reached = frozenset[int]() if least else places
        turns = min(least, len(text)) + len(text) + 1
        for turn in range(1, (turns if most is None else min(most, turns)) + 1):
            places = inner(text, places)
            if not places or (turn > least and places <= reached):
                break
            if turn >= least:
                reached |= places
        return reached

    return step
